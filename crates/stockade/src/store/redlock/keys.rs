use std::{fmt, sync::Arc};

use crate::{
    resource::{Bucket, Key, Namespace},
    store::redis::parts,
};

/// Returns the literal key of a resource's lock, for locks that are shared with other programs.
#[derive(Clone)]
pub(crate) struct KeyFormat(pub(crate) Arc<dyn Fn(&Key) -> String + Send + Sync>);

impl fmt::Debug for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFormat")
    }
}

/// The Redis keys of one resource, the same on every server.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) lock: String,
    /// The token floor of the resource's bucket.
    pub(super) floor: String,
}

/// Makes the names of Redis keys.
#[derive(Debug)]
pub(super) struct Keys {
    namespace: Namespace,
    common: parts::Keys,
    format: Option<KeyFormat>,
}

impl Keys {
    pub(super) fn new(namespace: Namespace, format: Option<KeyFormat>) -> Self {
        Self { common: parts::Keys::new(namespace.clone()), namespace, format }
    }

    pub(super) fn of(&self, key: &Key) -> Names {
        let lock = match &self.format {
            Some(KeyFormat(format)) => format(key),
            None => format!("{}{{{}}}rl:{}", self.namespace, key.bucket().tag(), key.as_str()),
        };
        Names { lock, floor: self.floor(key.bucket()) }
    }

    pub(super) fn floor(&self, bucket: Bucket) -> String {
        self.common.floor(bucket)
    }

    /// A pattern that matches every lock. `None` if a [`KeyFormat`] makes the names: a function can't be inverted.
    pub(super) fn locks(&self) -> Option<String> {
        self.format.is_none().then(|| format!("{}{{*}}rl:*", self.namespace))
    }

    /// The resource whose lock has this name, or `None` if this is no lock of ours.
    pub(super) fn resource(name: &str) -> Option<&str> {
        name.split_once("}rl:").map(|(_, resource)| resource)
    }
}
