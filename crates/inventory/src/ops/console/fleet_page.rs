use std::{fmt::Write, time::Duration};

use super::relay::Other;
use crate::fleet::Fleet;

/// All instances as JSON: this one first. `own` is the snapshot of this one, as JSON.
pub(super) fn page(fleet: &Fleet, own: &str, others: &[Other]) -> String {
    let mut text = String::with_capacity((own.len() + 200) * (others.len() + 1));
    text.push_str("{\"instances\":[");
    push(&mut text, fleet.id(), fleet.address(), "live", Duration::ZERO, Some(own));
    for Other { member, state, silent, snapshot } in others {
        text.push(',');
        push(&mut text, &member.id, member.address.as_deref(), state.as_str(), *silent, snapshot.as_deref());
    }
    text.push_str("]}");
    text
}

/// An id, an address and a state hold nothing that JSON escapes: they were checked.
fn push(text: &mut String, id: &str, address: Option<&str>, state: &str, silent: Duration, snapshot: Option<&str>) {
    let address = address.map_or_else(|| "null".to_owned(), |address| format!("\"{address}\""));
    let (silent, snapshot) = (silent.as_millis(), snapshot.unwrap_or("null"));
    let written = write!(
        text,
        "{{\"id\":\"{id}\",\"address\":{address},\"state\":\"{state}\",\"silent_ms\":{silent},\"snapshot\":{snapshot}}}"
    );
    debug_assert!(written.is_ok(), "a text takes what is written");
}
