//! The stream between the script and Postgres.

use std::{collections::HashMap, time::Duration};

use deadpool_redis::redis::{self, Value};

use super::{
    Reservation, SaleId,
    keys::Keys,
    link::{Link, LinkError},
};
use crate::domain::Sku;

/// The group of all consumers.
const GROUP: &str = "postgres";

/// Entries read at once.
pub(super) const BATCH: usize = 500;

/// A consumer that has had an entry for longer counts as dead.
pub(super) const STUCK: Duration = Duration::from_secs(3);

/// Fields of an entry, as Redis gives them; none of an entry that is gone.
type Fields = Option<Vec<Vec<u8>>>;

/// An entry of the stream.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its id, which begins with the time in milliseconds.
    pub(super) id: String,
    /// The reservation, or the text of an entry that is none.
    pub(super) reservation: Result<Reservation, String>,
    /// All words of the entry, by which the server recognises it.
    pub(super) words: Vec<u8>,
    /// The span of the request that made it.
    pub(super) traceparent: Option<String>,
}

/// Entries that nobody has read, or those that this consumer read and did not finish.
pub(super) async fn read(link: &Link, sku: &Sku, consumer: &str, again: bool) -> Result<Vec<Entry>, LinkError> {
    let mut command = redis::cmd("XREADGROUP");
    command.arg("GROUP").arg(GROUP).arg(consumer).arg("COUNT").arg(BATCH);
    command.arg("STREAMS").arg(Keys::of(sku).stream).arg(if again { "0" } else { ">" });
    let streams: Option<Vec<(Value, Vec<(String, Fields)>)>> = match link.command(&command).await {
        Err(LinkError::Refused(error)) if error.code() == Some("NOGROUP") => {
            regroup(link, sku).await?;
            None
        }
        other => other?,
    };
    Ok(streams.into_iter().flatten().flat_map(|(_, entries)| entries).map(entry).collect())
}

/// Makes the group of a stream that has none. There is no stream before the first counter of a sale. But if somebody
/// deleted the stream, reservations have begun a new one, which nobody would ever read.
async fn regroup(link: &Link, sku: &Sku) -> Result<(), LinkError> {
    let mut command = redis::cmd("XGROUP");
    command.arg("CREATE").arg(Keys::of(sku).stream).arg(GROUP).arg("0");
    match link.command(&command).await {
        // There is no stream, or another instance was faster.
        Err(LinkError::Refused(error)) if matches!(error.code(), Some("ERR" | "BUSYGROUP")) => Ok(()),
        other => other,
    }
}

/// Entries that no consumer has asked for in `idle`, by the clock of the server: this one has them from now on.
pub(super) async fn claim(link: &Link, sku: &Sku, consumer: &str, idle: Duration) -> Result<Vec<Entry>, LinkError> {
    let mut command = redis::cmd("XAUTOCLAIM");
    command.arg(Keys::of(sku).stream).arg(GROUP).arg(consumer).arg(idle.as_millis().to_string());
    command.arg("0-0").arg("COUNT").arg(BATCH);
    let claimed: (String, Vec<(String, Fields)>, Value) = match link.command(&command).await {
        Err(LinkError::Refused(error)) if error.code() == Some("NOGROUP") => return Ok(Vec::new()),
        other => other?,
    };
    Ok(claimed.1.into_iter().map(entry).collect())
}

/// How many entries Postgres does not have yet.
pub(super) async fn length(link: &Link, sku: &Sku) -> Result<i64, LinkError> {
    link.command(redis::cmd("XLEN").arg(Keys::of(sku).stream)).await
}

fn entry((id, fields): (String, Fields)) -> Entry {
    let fields = fields.unwrap_or_default();
    let words = fields.join(&b' ');
    let texts: Vec<_> = fields.iter().map(|word| text(word)).collect();
    let fields: HashMap<&str, &str> = texts.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let reservation = reservation(&fields).ok_or_else(|| texts.join(" "));
    let traceparent = fields.get("traceparent").map(|&text| text.to_owned());
    Entry { id, reservation, words, traceparent }
}

fn reservation(fields: &HashMap<&str, &str>) -> Option<Reservation> {
    Some(Reservation {
        // No id of a reservation is longer, and an index of Postgres takes no text of any length.
        id: fields.get("id").filter(|id| id.len() <= 64).map(|&id| id.to_owned())?,
        sale: SaleId(fields.get("sale")?.parse().ok()?),
        generation: fields.get("generation")?.parse().ok()?,
        customer: (*fields.get("customer")?).to_owned(),
        quantity: fields.get("quantity")?.parse().ok()?,
    })
}

/// A text that Postgres can keep.
fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_no_reservation_is_kept_as_text() {
        let word = |text: &str| text.as_bytes().to_vec();
        let fields = ["sale", "7", "generation", "1", "id", "7-ab", "customer", "Zoë", "quantity", "2"].map(word);
        let whole = entry(("1-0".to_owned(), Some(fields.to_vec())));
        let expected = Reservation {
            id: "7-ab".to_owned(),
            sale: SaleId(7),
            generation: 1,
            customer: "Zoë".to_owned(),
            quantity: 2,
        };
        assert_eq!(whole.reservation, Ok(expected));
        let broken = entry(("1-1".to_owned(), Some(vec![word("sale"), vec![0xff, 0]])));
        assert_eq!(broken.reservation, Err("sale \u{fffd}\u{fffd}".to_owned()));
        assert_eq!(broken.words, b"sale \xff\0", "as the server has it");
        assert_eq!(entry(("1-2".to_owned(), None)).reservation, Err(String::new()));
    }
}
