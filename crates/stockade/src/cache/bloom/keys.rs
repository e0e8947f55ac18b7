use crate::resource::{Bucket, Namespace};

/// The keys of a filter: its state, the bits of even and of odd epochs. The size is not part of the names: if two
/// versions of a program with different sizes had a filter each, each filter would lack the ids that the other added.
pub(super) fn of(namespace: &Namespace, name: &str) -> Vec<String> {
    let named = |letter: &str| format!("{namespace}{{{}}}{letter}:{name}", Bucket::FIRST.tag());
    vec![named("b"), named("b0"), named("b1")]
}
