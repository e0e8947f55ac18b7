use std::{fmt, sync::Arc};

/// The address of a cluster node, as the cluster announces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(in crate::redis) host: Arc<str>,
    pub(in crate::redis) port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
