use rand::{Rng, distr::Alphanumeric};

/// A new random name of this process, or of one store of it: 95 random bits in 16 letters and digits, none of which
/// ends a word of a record or a part of an owner.
pub(crate) fn process_id() -> String {
    rand::rng().sample_iter(Alphanumeric).take(16).map(char::from).collect()
}
