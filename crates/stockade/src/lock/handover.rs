use std::{borrow::Cow, fmt, time::Duration};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{
    lock::{Mode, Token},
    resource::Key,
    store::{Handed, Owner},
};

/// The first word of a text. It changes when the format changes.
const FORM: &str = "stockade-handover-2";
/// The length of an owner: a process of 16 characters, a dot, a number of 11 digits.
const OWNER_LEN: usize = 28;

/// An ownership on its way to another process, from [`Guard::hand_over`](super::Guard::hand_over) to
/// [`Locks::adopt`](super::Locks::adopt).
///
/// A bearer secret: whoever has it has the lock. It can be adopted once. If it is never adopted, the lock ends with
/// what was left of the guard's lease. If less than half was left, a renewal is sent. The lock then lasts a whole lease
/// from the renewal, unless the process ends before it has sent the renewal. The time until the adoption does not count
/// for [`max_hold`](super::LockRequest::max_hold). Dropping this value changes nothing: its text may be on its way.
#[derive(Clone)]
pub struct Handover {
    pub(super) handed: Handed,
    /// The rest of the longest hold that the request allowed.
    pub(super) hold_left: Option<Duration>,
}

/// The text is not a handover, or one of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a handover of this version: send what Handover::to_text returned, unchanged")]
#[non_exhaustive]
pub struct HandoverTextError;

impl Handover {
    pub(super) fn new(handed: Handed, hold_left: Option<Duration>) -> Self {
        Self { handed, hold_left }
    }

    /// The locked resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.handed.key
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.handed.mode
    }

    /// The fencing token of the guard that was handed over. The adopted guard has a higher one.
    #[must_use]
    pub fn token(&self) -> Token {
        self.handed.token
    }

    /// The text to send: printable ASCII without spaces, shorter than 4 KiB. It is a secret, so keep it out of logs.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Handed { key, owner, mode, token, lease } = &self.handed;
        let hold = self.hold_left.map_or_else(|| "-".to_owned(), |left| left.as_millis().to_string());
        let label = utf8_percent_encode(key.label(), NON_ALPHANUMERIC);
        let (mode, owner, lease) = (mode.as_str(), owner.as_str(), lease.as_millis());
        let key = utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC);
        format!("{FORM};{mode};{token};{lease};{hold};{owner};{label};{key}")
    }

    /// Reads a text from [`Handover::to_text`].
    ///
    /// # Errors
    ///
    /// [`HandoverTextError`].
    pub fn from_text(text: &str) -> Result<Self, HandoverTextError> {
        Self::read(text).ok_or(HandoverTextError)
    }

    fn read(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split(';').collect();
        let [FORM, mode, token, lease, hold, owner, label, key] = words.as_slice() else { return None };
        let mode = [Mode::Read, Mode::Write, Mode::Permit].into_iter().find(|known| known.as_str() == *mode)?;
        let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
        let decoded = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let handed = Handed {
            key: Key::encoded(Cow::Owned(decoded(label)?), decoded(key)?).ok()?,
            owner: owner_of(owner)?,
            mode,
            token: Token::new(token.parse().ok()?)?,
            lease: millis(lease).filter(super::terms::is_lease)?,
        };
        let hold_left = if *hold == "-" { None } else { Some(millis(hold)?) };
        Some(Self::new(handed, hold_left))
    }
}

fn owner_of(text: &str) -> Option<Owner> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (text.len() == OWNER_LEN && text.bytes().all(known)).then(|| Owner::new(text.to_owned()))
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Handed { key, mode, token, .. } = &self.handed;
        f.debug_struct("Handover").field("key", key).field("mode", mode).field("token", token).finish_non_exhaustive()
    }
}
