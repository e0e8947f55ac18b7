use super::{Bucket, Namespace};

/// What the names of all keys of a bucket begin with: the namespace and the tag of the bucket. They are made once,
/// since each command needs one.
#[derive(Debug)]
pub(crate) struct Heads(Box<[Box<str>]>);

impl Heads {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        let head = |index| format!("{namespace}{{{}}}", Bucket::from_index(index).tag()).into_boxed_str();
        Self((0..=u8::MAX).map(head).collect())
    }

    pub(crate) fn of_bucket(&self, bucket: Bucket) -> &str {
        &self.0[usize::from(bucket.index())]
    }
}
