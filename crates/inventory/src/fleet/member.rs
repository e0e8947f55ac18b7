use std::{collections::HashSet, time::Duration};

use axum::http::uri::Authority;

/// An instance that has not announced itself for this long is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// The most instances that are listed.
pub(crate) const MOST: usize = 64;

/// The longest address: no host name is longer.
const LONGEST_ADDRESS: usize = 260;

/// An instance, as it announced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Random: it differs after each start.
    pub(crate) id: String,
    /// Host and port of its operators' port; `None` if the instance listens on all addresses and was told none.
    pub(crate) address: Option<String>,
    /// How long ago it announced itself, when Redis was asked.
    pub(crate) age: Duration,
}

impl Member {
    /// The text that stands for an instance in Redis.
    pub(super) fn text(id: &str, address: Option<&str>) -> String {
        format!("{id} {}", address.unwrap_or("-"))
    }

    /// Reads the text that stands for an instance. `None` if it has another form.
    fn read(text: &[u8], age: Duration) -> Option<Self> {
        let (id, address) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let address = if address == "-" { None } else { Some(authority(address)?) };
        is_id.then(|| Self { id: id.to_owned(), address, age })
    }

    /// Reads the reply of the script. An instance that restarts leaves its old id at its address, so only the latest id
    /// of an address counts.
    pub(super) fn all(reply: &[(Vec<u8>, u64)]) -> Vec<Self> {
        let mut addresses = HashSet::new();
        let members = reply.iter().filter_map(|(text, age)| Self::read(text, Duration::from_millis(*age)));
        members
            .filter(|member| member.address.as_ref().is_none_or(|address| addresses.insert(address.clone())))
            .take(MOST)
            .collect()
    }
}

/// The text, if it is `HOST:PORT` and nothing else. No character of it means anything in JSON, in a URL or in HTML.
pub(crate) fn authority(text: &str) -> Option<String> {
    let authority: Authority = text.parse().ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    let has_both = authority.port_u16().is_some_and(|port| port > 0) && !authority.host().is_empty();
    (is_plain && has_both && text.len() <= LONGEST_ADDRESS).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(reply: &[(&str, u64)]) -> Vec<(String, Option<String>)> {
        let reply: Vec<_> = reply.iter().map(|(text, age)| (text.as_bytes().to_vec(), *age)).collect();
        Member::all(&reply).into_iter().map(|member| (member.id, member.address)).collect()
    }

    #[test]
    fn only_the_latest_instance_of_an_address_counts() {
        let reply = [
            ("00000000000000aa 10.0.0.1:9464", 0),
            ("00000000000000bb 10.0.0.1:9464", 9000),
            ("00000000000000cc [::1]:9464", 1),
            ("00000000000000dd -", 1),
            ("00000000000000ee -", 1),
        ];
        let ids: Vec<_> = all(&reply).into_iter().map(|(mut id, _)| id.split_off(14)).collect();
        assert_eq!(ids, ["aa", "cc", "dd", "ee"]);
    }

    #[test]
    fn what_no_instance_writes_is_ignored() {
        let id = "00000000000000aa";
        for address in
            ["", "a", "a:", "a:0", "a:99999", "u:p@a:1", "http://a:1", "a:1/x", "a:1?x", "a b:1", ":1", "a:1#"]
        {
            assert_eq!(all(&[(&format!("{id} {address}"), 0)]), [], "{address}");
        }
        for text in [" a:1", "zz a:1", "00000000000000a a:1", "a:1"] {
            assert_eq!(all(&[(text, 0)]), [], "{text}");
        }
        assert_eq!(all(&[(&format!("{id} {}:1", "a".repeat(300)), 0)]), []);
        let many: Vec<_> = (1..200).map(|port| (format!("{id} a:{port}").into_bytes(), 0)).collect();
        assert_eq!(Member::all(&many).len(), MOST);
    }
}
