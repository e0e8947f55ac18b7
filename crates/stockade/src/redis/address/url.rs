//! The forms of the URL that says where Redis is. No message quotes a URL, because it may hold a password.

use redis::ConnectionInfo;
use redis::IntoConnectionInfo;

use super::topology::Topology;
use crate::redis::ConnectError;

pub(super) fn parse(url: &str) -> Result<Topology, ConnectError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(ConnectError::config(
            "the URL has no scheme: it begins with `redis://`, `redis-sentinel://` or `redis-cluster://`",
        ));
    };
    if matches!(scheme, "rediss" | "valkeys" | "rediss-sentinel" | "rediss-cluster") {
        if !cfg!(feature = "tls") {
            return Err(ConnectError::Feature { feature: "tls" });
        }
        if rest.contains('#') {
            return Err(ConnectError::config(
                "`#insecure` is not supported: name the certificate authority with `TlsOptions`",
            ));
        }
    }
    match scheme {
        "redis-sentinel" | "rediss-sentinel" => sentinel(scheme, rest),
        "redis-cluster" | "rediss-cluster" => cluster(scheme, rest),
        // The parser's own error is left out, because it may quote the URL with its password.
        _ => url.into_connection_info().map(Topology::Single).map_err(|_| {
            ConnectError::config("the URL is not of the form `redis://[[user]:password@]host[:port][/database]`")
        }),
    }
}

fn sentinel(scheme: &str, rest: &str) -> Result<Topology, ConnectError> {
    const FORM: &str = "the URL is not of the form `redis-sentinel://[[user]:password@]host[:port],…/primary[/database]\
                        [?sentinel_username=…&sentinel_password=…]`";
    let parts = Parts::of(rest).ok_or_else(|| ConnectError::config(FORM))?;
    let (primary, database) = parts.path.split_once('/').unwrap_or((parts.path, ""));
    let primary = decoded(primary).filter(|name| !name.is_empty()).ok_or_else(|| {
        ConnectError::config("the URL lacks the name of the primary: `redis-sentinel://host:26379/<name>`")
    })?;
    let node = parts.entry(scheme, parts.hosts[0], database).ok_or_else(|| ConnectError::config(FORM))?;
    let (mut username, mut password) = (None, None);
    for pair in parts.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "sentinel_username" => username = decoded(value),
            "sentinel_password" => password = decoded(value),
            _ => {
                return Err(ConnectError::config(
                    "the URL has a parameter that is not known: `sentinel_username` and `sentinel_password` are",
                ));
            }
        }
    }
    let mut sentinels = Vec::with_capacity(parts.hosts.len());
    for host in &parts.hosts {
        let place = with_port(host, 26379);
        let place = Parts { user: "", ..parts.clone() }.entry(scheme, &place, "");
        let place = place.ok_or_else(|| ConnectError::config(FORM))?;
        let mut settings = place.redis_settings().clone();
        if let Some(username) = &username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &password {
            settings = settings.set_password(password);
        }
        sentinels.push(place.set_redis_settings(settings));
    }
    Ok(Topology::Sentinel { sentinels, primary, node: super::topology::NodeSettings::like(node) })
}

fn cluster(scheme: &str, rest: &str) -> Result<Topology, ConnectError> {
    const FORM: &str = "the URL is not of the form `redis-cluster://[[user]:password@]host[:port],…`";
    let parts = Parts::of(rest).filter(|parts| parts.query.is_empty()).ok_or_else(|| ConnectError::config(FORM))?;
    if !matches!(parts.path, "" | "0") {
        return Err(ConnectError::config("a cluster has database 0 only: leave the end of the URL out"));
    }
    let seeds: Option<Vec<_>> = parts.hosts.iter().map(|host| parts.entry(scheme, host, "")).collect();
    let seeds = seeds.ok_or_else(|| ConnectError::config(FORM))?;
    let node = super::topology::NodeSettings::like(seeds[0].clone());
    Ok(Topology::Cluster { seeds, node })
}

/// What follows the scheme in a URL with several hosts.
#[derive(Clone)]
struct Parts<'a> {
    /// User and password as written, with the `@`.
    user: &'a str,
    /// At least one.
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Option<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let hosts: Vec<_> = hosts.split(',').collect();
        let usable = hosts.iter().all(|host| !host.is_empty());
        usable.then(|| Self { user, hosts, path: path.trim_end_matches('/'), query })
    }

    /// The URL of one host, in the form that the parser of redis-rs reads.
    fn entry(&self, scheme: &str, host: &str, database: &str) -> Option<ConnectionInfo> {
        let scheme = scheme.split('-').next()?;
        format!("{scheme}://{}{host}/{database}", self.user).into_connection_info().ok()
    }
}

fn with_port(host: &str, port: u16) -> String {
    let name = host.rfind(']').map_or(host, |end| &host[end..]);
    if name.contains(':') { host.to_owned() } else { format!("{host}:{port}") }
}

fn decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        parse(url).map_or_else(|error| error.to_string(), |topology| topology.to_string())
    }

    #[test]
    fn a_single_server_is_read_as_before() {
        assert_eq!(shown("redis://:secret@host:7000/2"), "host:7000/2");
        assert_eq!(shown("unix:///run/redis.sock?db=1"), "/run/redis.sock/1");
    }

    #[test]
    fn sentinels_have_their_own_port_and_credentials() {
        let url = "redis-sentinel://app:s%2Fcret@one,two:5000,[::1]/the%20primary/3?sentinel_password=other%26secret";
        let Ok(Topology::Sentinel { sentinels, primary, node }) = parse(url) else { panic!("{}", shown(url)) };
        let places: Vec<_> = sentinels.iter().map(|place| place.addr().to_string()).collect();
        assert_eq!(places, ["one:26379", "two:5000", "::1:26379"]);
        assert_eq!(primary, "the primary");
        assert!(sentinels.iter().all(|place| place.redis_settings().username().is_none()));
        assert!(sentinels.iter().all(|place| place.redis_settings().password() == Some("other&secret")));
        let node = node.at("three", 6380);
        assert_eq!((node.addr().to_string().as_str(), node.redis_settings().db()), ("three:6380", 3));
        assert_eq!(node.redis_settings().username(), Some("app"));
        assert_eq!(node.redis_settings().password(), Some("s/cret"));
    }

    #[test]
    fn every_seed_of_a_cluster_is_entered_alike() {
        let url = "redis-cluster://:secret@one,two:7001";
        let Ok(Topology::Cluster { seeds, node }) = parse(url) else { panic!("{}", shown(url)) };
        assert_eq!(shown(url), "cluster of one:6379,two:7001");
        assert!(seeds.iter().all(|seed| seed.redis_settings().password() == Some("secret")));
        assert_eq!(node.at("three", 1).redis_settings().password(), Some("secret"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_second_s_asks_for_tls_everywhere() {
        let Ok(Topology::Sentinel { sentinels, node, .. }) = parse("rediss-sentinel://one/primary") else { panic!() };
        assert!(matches!(sentinels[0].addr(), redis::ConnectionAddr::TcpTls { .. }));
        assert!(node.is_tls() && matches!(node.at("two", 1).addr(), redis::ConnectionAddr::TcpTls { port: 1, .. }));
        let Ok(Topology::Cluster { node, .. }) = parse("rediss-cluster://one") else { panic!() };
        assert!(node.is_tls());
        assert!(shown("rediss://one/#insecure").contains("TlsOptions"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_a_word_of_the_url() {
        let odd = [
            "secret",
            "http://secret",
            "redis://:secret@host:port",
            "redis-sentinel://:secret@one:26379",
            "redis-sentinel://:secret@one,,two/primary",
            "redis-sentinel://:secret@one:port/primary",
            "redis-sentinel://:secret@one/primary/database",
            "redis-sentinel://one/primary?secret=1",
            "redis-cluster://:secret@one,two/1",
            "redis-cluster://:secret@one:port",
            "rediss://:secret@one:port",
        ];
        for url in odd {
            let Err(error) = parse(url) else { panic!("{url} was read") };
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
