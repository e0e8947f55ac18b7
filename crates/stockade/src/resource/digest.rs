use sha2::{Digest, Sha256};

use super::is_name;

/// No escaped id contains this: a `%` there stands before two hex digits. No template has a `%` in its text.
const MARK: &str = "%sha256-";

/// The key that stands for one that is too long: its kind, so that people see what it is, and the hash of the whole
/// text.
pub(super) fn of(text: &str) -> String {
    let kind = text.split(':').next().filter(|kind| is_name(kind) && kind.len() <= 64).unwrap_or_default();
    format!("{kind}:{MARK}{:x}", Sha256::digest(text))
}
