//! The arguments of the scripts, in the form that the scripts' headers describe.

use std::{borrow::Cow, io::Write, time::Duration};

use redis::{Cmd, RedisWrite};

use super::keys::{ALL_KEYS, Keys};
use crate::{
    redis::{Joins, evalsha_of},
    resource::Key,
    store::{
        Attempt, Force, Handed, Mode, Owner, Token,
        redis::scripts::{ACQUIRE, RELEASE},
    },
};

/// The lease of a handed-over grant until the waiter confirms it. A dead waiter delays the next one by this time.
pub(crate) const GRANT: Duration = Duration::from_secs(2);

/// How many of [`Keys::of`], from the first, an acquire and a release touch when nobody else wants the resource.
const ACQUIRED: usize = 2;
const RELEASED: usize = 1;

/// The arguments that a script needs to grant the resource to the next waiter.
#[derive(Clone, Debug)]
pub(crate) struct Handing<'a> {
    /// Whether waiters without a subscription are skipped. Needs a server that counts the receivers of a message.
    pub(crate) skip: bool,
    /// The prefix of the inbox channels.
    pub(crate) channel: Cow<'a, str>,
    /// Whether all keys of the resource are declared, as a cluster requires. Otherwise only those of the common case.
    pub(crate) all_keys: bool,
}

/// A part of an argument that several values share.
enum Word<'a> {
    Text(&'a str),
    Whole(u64),
}

impl Handing<'_> {
    fn declared(&self, least: usize) -> usize {
        if self.all_keys { ALL_KEYS } else { least }
    }

    fn words(&self) -> [Word<'_>; 3] {
        [Word::Whole(whole_millis(GRANT)), Word::Whole(self.skip.into()), Word::Text(&self.channel)]
    }

    fn argument(&self) -> Vec<u8> {
        let mut argument = Vec::new();
        write_words(&mut argument, &self.words());
        argument
    }
}

/// Writes the words with spaces between them, without the formatting machinery of the standard library: every acquire
/// and release passes here.
fn write_words(out: &mut impl Write, words: &[Word<'_>]) {
    for (place, word) in words.iter().enumerate() {
        let space: &[u8] = if place == 0 { b"" } else { b" " };
        // Writing to memory can't fail.
        let _ = out.write_all(space);
        let _ = match word {
            Word::Text(text) => out.write_all(text.as_bytes()),
            Word::Whole(number) => out.write_all(itoa::Buffer::new().format(*number).as_bytes()),
        };
    }
}

/// One acquire command of an attempt.
pub(crate) struct Asking<'a> {
    pub(crate) attempt: &'a Attempt,
    pub(crate) owner: &'a Owner,
    /// The rest of the wait; `None` is a wait without limit.
    pub(crate) wait: Option<Duration>,
    /// The place from an earlier answer, or 0.
    pub(crate) seq: u64,
    /// The estimated server time, in µs; 0 if unknown.
    pub(crate) stamp: u64,
    pub(crate) stale_after: Duration,
}

impl Asking<'_> {
    /// The whole command. `sha` names the script.
    pub(crate) fn command(&self, sha: &str, keys: &Keys, handing: &Handing<'_>) -> Cmd {
        // More than all numbers of a command take together.
        const NUMBERS: usize = 96;
        let (key, names) = (&self.attempt.key, handing.declared(ACQUIRED));
        let texts = self.owner.as_str().len() + self.attempt.tag.len() + handing.channel.len();
        let mut command = evalsha_of(sha, names, names + 6, keys.bytes(key, names) + texts + NUMBERS);
        keys.add(key, names, &mut command);
        self.add(handing, &mut command);
        command
    }

    fn add(&self, handing: &Handing<'_>, command: &mut Cmd) {
        let Attempt { mode, permits, lease, max_waiters, tag, yields, .. } = self.attempt;
        command.arg(self.stamp).arg(whole_millis(self.stale_after)).arg(self.owner.as_str()).arg(whole_millis(*lease));
        let mode = match mode {
            Mode::Read => Cow::Borrowed("r"),
            Mode::Write => Cow::Borrowed("w"),
            Mode::Permit => Cow::Owned(format!("s{permits}")),
        };
        let wait = match self.wait {
            Some(wait) => {
                let millis = i64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
                Word::Whole(millis.unsigned_abs())
            }
            None => Word::Text("-1"),
        };
        let [grant, skip, channel] = handing.words();
        let (place, most, yields) = (self.seq, u64::from(*max_waiters), u64::from(yields.is_some()));
        let pack =
            [Word::Text(&mode), Word::Whole(place), wait, Word::Whole(most), grant, skip, channel, Word::Whole(yields)];
        write_words(&mut command.writer_for_next_arg(), &pack);
        if !tag.is_empty() {
            command.arg(&**tag);
        }
    }

    #[cfg(test)]
    pub(crate) fn args(&self, handing: &Handing<'_>) -> Vec<Vec<u8>> {
        let mut command = Cmd::new();
        self.add(handing, &mut command);
        words(&command)
    }
}

#[cfg(test)]
fn words(command: &Cmd) -> Vec<Vec<u8>> {
    let word = |word: redis::Arg<&[u8]>| if let redis::Arg::Simple(word) = word { word.to_vec() } else { Vec::new() };
    command.args_iter().map(word).collect()
}

/// The arguments of a MULTI. All attempts have the same lease and tag.
pub(crate) fn multi(attempts: &[Attempt], owners: &[Owner], stamp: u64, stale_after: Duration) -> Vec<Vec<u8>> {
    let (lease, tag) = attempts.first().map_or((Duration::ZERO, ""), |attempt| (attempt.lease, &attempt.tag));
    let mut args = vec![stamp.to_string().into_bytes(), millis(stale_after), millis(lease), tag.into()];
    args.extend(owners.iter().map(|owner| owner.as_str().into()));
    args
}

#[cfg(test)]
pub(crate) fn release_args(owner: &Owner, handing: &Handing<'_>) -> Vec<Vec<u8>> {
    vec![handing.argument(), owner.as_str().into()]
}

/// How several ACQUIRE commands become one, and several RELEASE commands.
pub(crate) fn acquires(attempt: &Attempt) -> Joins {
    Joins { op: ACQUIRE.name, keys: ACQUIRED, shared: 2, own: 3 + usize::from(!attempt.tag.is_empty()) }
}

pub(crate) const RELEASES: Joins = Joins { op: RELEASE.name, keys: RELEASED, shared: 1, own: 1 };

/// A RELEASE command. `sha` names the script.
pub(crate) fn release(sha: &str, keys: &Keys, key: &Key, owner: &Owner, handing: &Handing<'_>) -> Cmd {
    let names = handing.declared(RELEASED);
    let bytes = keys.bytes(key, names) + owner.as_str().len() + handing.channel.len() + 16;
    let mut command = evalsha_of(sha, names, names + 2, bytes);
    keys.add(key, names, &mut command);
    write_words(&mut command.writer_for_next_arg(), &handing.words());
    command.arg(owner.as_str());
    command
}

pub(crate) fn downgrade(owner: &Owner, token: Token, lease: Duration, handing: &Handing<'_>) -> Vec<Vec<u8>> {
    vec![owner.as_str().into(), handing.argument(), millis(lease), token.to_string().into_bytes()]
}

/// The argument for one resource of a RENEW. The owner needs no separator, since all owners have the same length.
pub(crate) fn renewed(owner: &Owner, token: Token, lease: Duration) -> Vec<u8> {
    format!("{}{} {token}", owner.as_str(), lease.as_millis()).into_bytes()
}

pub(crate) fn adopt(owner: &Owner, handed: &Handed, stamp: u64, stale_after: Duration) -> Vec<Vec<u8>> {
    vec![
        stamp.to_string().into_bytes(),
        millis(stale_after),
        owner.as_str().into(),
        millis(handed.lease),
        handed.owner.as_str().into(),
        handed.token.to_string().into_bytes(),
        match handed.mode {
            Mode::Read => b"r".to_vec(),
            Mode::Write => b"w".to_vec(),
            Mode::Permit => b"s".to_vec(),
        },
    ]
}

pub(crate) fn force(force: Force, handing: &Handing<'_>) -> Vec<Vec<u8>> {
    let mode = match force {
        Force::Now => "now",
        Force::AfterLeases => "after_leases",
    };
    vec![mode.into(), handing.argument()]
}

pub(crate) fn millis(duration: Duration) -> Vec<u8> {
    duration.as_millis().to_string().into_bytes()
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
