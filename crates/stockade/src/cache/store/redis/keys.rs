use crate::{
    process_id::process_id,
    resource::{Bucket, Heads, Key, Namespace},
};

#[derive(Debug)]
pub(super) struct Keys {
    namespace: Namespace,
    /// The prefixes of all keys of a bucket.
    heads: Heads,
    name: &'static str,
    /// The name of this process, under which it waits for the end of other loads.
    pub(super) process: String,
}

impl Keys {
    pub(super) fn new(namespace: &Namespace, name: &'static str) -> Self {
        Self { heads: Heads::of(namespace), namespace: namespace.clone(), name, process: process_id() }
    }

    /// The Redis keys `E I S` of one key: entry, intents, sequence of the bucket.
    pub(super) fn of(&self, key: &Key) -> Vec<String> {
        vec![self.entry(key), self.keyed("i:", key), self.sequence(key.bucket())]
    }

    /// The Redis keys `E I S A`: as [`Keys::of`], and the set of all intents.
    pub(super) fn of_write(&self, key: &Key) -> Vec<String> {
        let mut keys = self.of(key);
        keys.push(self.announcements());
        keys
    }

    /// The one set of all standing intents of the cache.
    pub(super) fn announcements(&self) -> String {
        self.named("a:", Bucket::FIRST)
    }

    /// The Redis keys `E I S T C`: as [`Keys::of`], the table of tags, and the epoch.
    pub(super) fn of_load(&self, key: &Key) -> Vec<String> {
        let mut keys = self.of(key);
        keys.extend([self.tags(), self.epoch()]);
        keys
    }

    /// The number of the current epoch. Every clear begins a new epoch.
    pub(super) fn epoch(&self) -> String {
        self.named("c:", Bucket::FIRST)
    }

    /// The table of tags. It is one key, so that it is lost as a whole or not at all.
    pub(super) fn tags(&self) -> String {
        self.named("t:", Bucket::FIRST)
    }

    pub(super) fn entry(&self, key: &Key) -> String {
        self.keyed("e:", key)
    }

    pub(super) fn sequence(&self, bucket: Bucket) -> String {
        self.named("s:", bucket)
    }

    /// The marker that says which run of the server is trusted.
    pub(super) fn marker(&self) -> String {
        self.named("j:", Bucket::FIRST)
    }

    /// A key that never exists: deleting it is a write that changes nothing.
    pub(super) fn write_probe(&self) -> String {
        self.named("p:", Bucket::FIRST)
    }

    fn keyed(&self, letter: &str, key: &Key) -> String {
        [self.heads.of_bucket(key.bucket()), letter, self.name, ":", key.as_str()].concat()
    }

    fn named(&self, letter: &str, bucket: Bucket) -> String {
        [self.heads.of_bucket(bucket), letter, self.name].concat()
    }

    /// The channel of invalidations and heartbeats.
    pub(super) fn channel(&self) -> String {
        format!("{}x:{}", self.namespace, self.name)
    }

    /// The prefix of the inbox channels, before the name of the process.
    pub(super) fn inbox_prefix(&self) -> String {
        format!("{}i:", self.namespace)
    }

    pub(super) fn inbox(&self) -> String {
        format!("{}{}", self.inbox_prefix(), self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_resource_share_a_slot_and_never_meet_those_of_another_cache() {
        let keys = Keys::new(&Namespace::new("shop").unwrap(), "stock");
        let key = Key::new("stock", "85123A").unwrap();
        let tag = key.bucket().tag();
        assert_eq!(
            keys.of(&key),
            [
                format!("shop:v1:{{{tag}}}e:stock:stock:85123A"),
                format!("shop:v1:{{{tag}}}i:stock:stock:85123A"),
                format!("shop:v1:{{{tag}}}s:stock"),
            ]
        );
        assert_eq!(keys.of_load(&key)[..3], keys.of(&key));
        assert_eq!(keys.of_load(&key)[3..], ["shop:v1:{265b}t:stock", "shop:v1:{265b}c:stock"]);
        assert_eq!(keys.of_write(&key)[..3], keys.of(&key));
        assert_eq!(keys.of_write(&key)[3..], ["shop:v1:{265b}a:stock"]);
        assert_eq!(keys.channel(), "shop:v1:x:stock");
        assert_eq!(keys.inbox().len(), "shop:v1:i:".len() + 16);
        assert_ne!(keys.inbox(), Keys::new(&Namespace::new("shop").unwrap(), "stock").inbox());
    }
}
