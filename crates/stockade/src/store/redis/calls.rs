//! Arguments of the scripts, in the form their headers give.

use std::time::Duration;

use crate::store::{Attempt, Force, Handed, Mode, Owner};

/// The lease of a grant that was handed over and not confirmed yet: what a waiter that died costs those behind it.
pub(super) const GRANT: Duration = Duration::from_secs(2);

/// What a script needs to hand the resource on.
#[derive(Clone, Debug)]
pub(super) struct Handing {
    /// Waiters without a subscription are passed over. Only where the server counts receivers.
    pub(super) skip: bool,
    pub(super) channel: String,
}

impl Handing {
    fn pack(&self) -> String {
        format!("{} {} {}", GRANT.as_millis(), u8::from(self.skip), self.channel)
    }
}

/// One sending of an attempt.
pub(super) struct Asking<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) owner: &'a Owner,
    /// What is left of the wait; `None` without limit.
    pub(super) wait: Option<Duration>,
    /// The place from an earlier answer, or 0.
    pub(super) seq: u64,
    /// Server time, µs; 0 when unknown.
    pub(super) stamp: u64,
    pub(super) stale_after: Duration,
}

impl Asking<'_> {
    pub(super) fn args(&self, handing: &Handing) -> Vec<Vec<u8>> {
        let Attempt { mode, permits, lease, max_waiters, tag, yields, .. } = self.attempt;
        let wait = self.wait.map_or("-1".to_owned(), |wait| wait.as_micros().div_ceil(1000).to_string());
        let pack = format!("{wait} {max_waiters} {} {}", handing.pack(), u8::from(yields.is_some()));
        vec![
            self.owner.as_str().into(),
            match mode {
                Mode::Read => b"r".to_vec(),
                Mode::Write => b"w".to_vec(),
                Mode::Permit => format!("s{permits}").into_bytes(),
            },
            millis(*lease),
            self.stamp.to_string().into_bytes(),
            millis(self.stale_after),
            tag.as_bytes().to_vec(),
            self.seq.to_string().into_bytes(),
            pack.into_bytes(),
        ]
    }
}

/// Several attempts, which have lease and tag in common.
pub(super) fn multi(attempts: &[Attempt], owners: &[Owner], stamp: u64, stale_after: Duration) -> Vec<Vec<u8>> {
    let (lease, tag) = attempts.first().map_or((Duration::ZERO, ""), |attempt| (attempt.lease, &attempt.tag));
    let mut args = vec![millis(lease), stamp.to_string().into_bytes(), millis(stale_after), tag.into()];
    args.extend(owners.iter().map(|owner| owner.as_str().into()));
    args
}

pub(super) fn release(owner: &Owner, handing: &Handing) -> Vec<Vec<u8>> {
    vec![owner.as_str().into(), handing.pack().into_bytes()]
}

pub(super) fn downgrade(owner: &Owner, lease: Duration, handing: &Handing) -> Vec<Vec<u8>> {
    vec![owner.as_str().into(), handing.pack().into_bytes(), millis(lease)]
}

pub(super) fn adopt(owner: &Owner, handed: &Handed, stamp: u64, stale_after: Duration) -> Vec<Vec<u8>> {
    vec![
        owner.as_str().into(),
        millis(handed.lease),
        stamp.to_string().into_bytes(),
        millis(stale_after),
        handed.owner.as_str().into(),
        handed.token.to_string().into_bytes(),
        match handed.mode {
            Mode::Read => b"r".to_vec(),
            Mode::Write => b"w".to_vec(),
            Mode::Permit => b"s".to_vec(),
        },
    ]
}

pub(super) fn force(force: Force, handing: &Handing) -> Vec<Vec<u8>> {
    let mode = match force {
        Force::Now => "now",
        Force::AfterLeases => "after_leases",
    };
    vec![mode.into(), handing.pack().into_bytes()]
}

pub(in crate::store) fn millis(duration: Duration) -> Vec<u8> {
    duration.as_millis().to_string().into_bytes()
}
