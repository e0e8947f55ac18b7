use super::shape::Shape;
use crate::resource::{Bucket, Namespace};

/// The keys of a filter: its state, the bits of even and of odd epochs. The size is part of the name, so that two versions of
/// a program that want different sizes have a filter each.
pub(super) fn of(namespace: &Namespace, name: &str, shape: Shape) -> Vec<String> {
    let Shape { bits, hashes } = shape;
    let named = |letter: &str| format!("{namespace}{{{}}}{letter}:{name}:{bits}:{hashes}", Bucket::FIRST.tag());
    vec![named("b"), named("b0"), named("b1")]
}
