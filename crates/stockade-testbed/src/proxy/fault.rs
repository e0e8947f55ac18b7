//! The faults of a proxy.

use std::time::Duration;

/// The effect of a [`Proxy`](super::Proxy) on every connection, open or new, from the moment it is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Forwards everything.
    #[default]
    None,
    /// A network that swallows packets: connections are accepted and kept, and nothing is forwarded either way, not
    /// even their end. Bytes that were sent meanwhile arrive when the fault ends, as TCP would send them again.
    Hole,
    /// Forwards everything after this delay, in both directions. Throughput is not limited.
    Delay(Duration),
    /// Breaks every connection, and every new one at once, with a TCP reset.
    Reset,
    /// Forwards requests and drops their replies. A connection that has lost some is reset when the fault ends: its
    /// next reply would answer an earlier request.
    DropReplies,
}
