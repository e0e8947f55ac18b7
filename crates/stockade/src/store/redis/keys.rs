use crate::resource::{Bucket, Key, Namespace};

/// Names of keys and channels. The bucket's tag keeps all that a script touches in one Cluster slot.
#[derive(Debug)]
pub(in crate::store) struct Keys {
    namespace: Namespace,
}

impl Keys {
    pub(in crate::store) fn new(namespace: Namespace) -> Self {
        Self { namespace }
    }

    /// The keys L F Q W M of a resource, which every script gets in this order, needed or not: an undeclared key would
    /// make it fail half-way where slots migrate.
    pub(super) fn of(&self, key: &Key) -> Vec<String> {
        let (namespace, tag, key_text) = (&self.namespace, key.bucket().tag(), key.as_str());
        let named = |letter: &str| format!("{namespace}{{{tag}}}{letter}:{key_text}");
        vec![named("l"), self.floor(key.bucket()), named("q"), named("w"), named("m")]
    }

    /// The token floor of a bucket.
    pub(in crate::store) fn floor(&self, bucket: Bucket) -> String {
        format!("{}{{{}}}f", self.namespace, bucket.tag())
    }

    /// The run marker of the server that has the bucket.
    pub(in crate::store) fn marker(&self, bucket: Bucket) -> String {
        format!("{}{{{}}}e", self.namespace, bucket.tag())
    }

    /// What stands before the process in the name of its inbox.
    pub(super) fn inbox_prefix(&self) -> String {
        format!("{}i:", self.namespace)
    }

    /// The same in a cluster. A script may publish only in the slot of its keys, and only there the number of receivers
    /// is right; the scripts tell by the braces that the channel is a sharded one.
    pub(super) fn bucket_inbox_prefix(&self, bucket: Bucket) -> String {
        format!("{}{{{}}}i:", self.namespace, bucket.tag())
    }

    pub(super) fn bucket_inbox(&self, bucket: Bucket, process: &str) -> String {
        format!("{}{process}", self.bucket_inbox_prefix(bucket))
    }

    /// A pattern that matches every resource's state.
    pub(super) fn states(&self) -> String {
        format!("{}{{*}}l:*", self.namespace)
    }

    /// The resource whose state has this name.
    pub(super) fn resource(name: &str) -> Option<&str> {
        name.split_once("}l:").map(|(_, resource)| resource)
    }
}
