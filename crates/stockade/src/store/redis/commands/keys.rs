use std::io::Write;

use redis::{Cmd, RedisWrite};

use crate::resource::{Bucket, Heads, Key, Namespace};

/// The letters of the keys L F Q W M Z, which stand before the resource. F and Z belong to the bucket, and have no
/// resource. Z never exists.
const LETTERS: [&str; 6] = ["l:", "f", "q:", "w:", "m:", "z"];

pub(crate) const ALL_KEYS: usize = LETTERS.len();

/// Makes the names of keys and channels. All names of a bucket have the same hash tag, so that a script's keys are in
/// one Cluster slot.
#[derive(Debug)]
pub(crate) struct Keys {
    namespace: Namespace,
    /// The beginnings of all names, by bucket.
    heads: Heads,
    inbox_prefix: String,
}

impl Keys {
    pub(crate) fn new(namespace: Namespace) -> Self {
        Self { heads: Heads::of(&namespace), inbox_prefix: format!("{namespace}i:"), namespace }
    }

    fn head(&self, bucket: Bucket) -> &str {
        self.heads.of_bucket(bucket)
    }

    fn parts<'a>(&'a self, key: &'a Key) -> [[&'a str; 3]; ALL_KEYS] {
        let head = self.head(key.bucket());
        LETTERS.map(|letter| [head, letter, if letter.ends_with(':') { key.as_str() } else { "" }])
    }

    /// The keys L F Q W M Z of a resource, in the order in which every script gets them. In a cluster a script gets all
    /// of them, for the reason that names.lua gives.
    pub(crate) fn of(&self, key: &Key) -> Vec<String> {
        self.parts(key).map(|parts| parts.concat()).into()
    }

    /// The keys of a resource that RENEW gets: L alone, from which the script derives the others, or L Q M if all keys
    /// must be declared. Behind those of all resources stands [`Keys::absent`] then.
    pub(crate) fn renewed(&self, key: &Key, declared: bool) -> Vec<String> {
        let [state, _, queue, _, records, _] = self.parts(key);
        let names = [Some(state), declared.then_some(queue), declared.then_some(records)];
        names.into_iter().flatten().map(|parts| parts.concat()).collect()
    }

    /// Adds the first keys of [`Keys::of`] to a command, without an allocation for each.
    pub(crate) fn add(&self, key: &Key, first: usize, command: &mut Cmd) {
        for parts in &self.parts(key)[..first] {
            let mut name = command.writer_for_next_arg();
            for part in parts {
                // Writing to memory can't fail.
                let _ = name.write_all(part.as_bytes());
            }
        }
    }

    /// An upper bound of the length of those keys together, in bytes.
    pub(crate) fn bytes(&self, key: &Key, first: usize) -> usize {
        first * (self.head(key.bucket()).len() + 2 + key.as_str().len())
    }

    /// The key Z of a bucket.
    pub(crate) fn absent(&self, bucket: Bucket) -> String {
        format!("{}z", self.head(bucket))
    }

    /// The token floor of a bucket.
    pub(crate) fn floor(&self, bucket: Bucket) -> String {
        format!("{}f", self.head(bucket))
    }

    /// The prefix of inbox channels. The name of the process follows it.
    pub(crate) fn inbox_prefix(&self) -> &str {
        &self.inbox_prefix
    }

    /// The prefix of inbox channels in a cluster: sharded channels in the slot of the bucket. A script may publish only
    /// there, and only there the number of receivers is right. The scripts recognize a sharded channel by its braces.
    pub(crate) fn bucket_inbox_prefix(&self, bucket: Bucket) -> String {
        format!("{}i:", self.head(bucket))
    }

    pub(crate) fn bucket_inbox(&self, bucket: Bucket, process: &str) -> String {
        format!("{}{process}", self.bucket_inbox_prefix(bucket))
    }

    /// A pattern that matches every resource's state.
    pub(crate) fn states(&self) -> String {
        format!("{}{{*}}l:*", self.namespace)
    }

    /// The resource whose state has this name, or `None` if the name is not that of a state.
    pub(crate) fn resource(name: &str) -> Option<&str> {
        name.split_once("}l:").map(|(_, resource)| resource)
    }
}
