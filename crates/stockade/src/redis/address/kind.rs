/// The kind of server that a URL promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Expected {
    /// A server that has all keys.
    Single,
    /// A node of a cluster.
    Node,
}

/// A server of another kind than the URL promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is {found}: {remedy}")]
pub(in crate::redis) struct Kind {
    pub(in crate::redis) found: &'static str,
    pub(in crate::redis) remedy: &'static str,
}

pub(in crate::redis) const SENTINEL: Kind = Kind {
    found: "a sentinel",
    remedy: "write `redis-sentinel://HOST:PORT/NAME`, with the name of the primary that it watches",
};
pub(in crate::redis) const NODE: Kind = Kind { found: "a node of a cluster", remedy: "write `redis-cluster://`" };
pub(in crate::redis) const ALONE: Kind = Kind { found: "no node of a cluster", remedy: "write `redis://`" };
