use crate::resource::{Bucket, Namespace};

/// The keys of a filter: its state, the bits of even and of odd epochs. The size is not part of the names: two versions
/// of a program that want different sizes must not have a filter each, of which either would lack the other's ids.
pub(super) fn of(namespace: &Namespace, name: &str) -> Vec<String> {
    let named = |letter: &str| format!("{namespace}{{{}}}{letter}:{name}", Bucket::FIRST.tag());
    vec![named("b"), named("b0"), named("b1")]
}
