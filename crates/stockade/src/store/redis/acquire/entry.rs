use std::time::Duration;

use super::mailbox::Grant;
use crate::{
    clock::Instant,
    redis::{believed, believed_until},
    store::{Token, redis::commands::replies::Renewed},
};

/// A grant, and what this process knows about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) token: Token,
    /// Until when this process may rely on the lease.
    pub(super) until: Instant,
    /// The time from the making of the grant to its arrival. `None` unless the grant came by a message.
    pub(super) handed_off: Option<Duration>,
    /// Whether others wait for the resource, as far as this process knows.
    pub(super) wanted: bool,
}

/// What a renewal makes of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Confirmed {
    /// The grant was renewed. The renewal may again have taken too long.
    Renewed(Entry),
    /// The grant can't be renewed, but what is left of it is enough to enter.
    AsItIs,
    /// Lost at server time `now`. `early`: the server ends the lease a little later than this process may rely on it.
    Gone { now: u64, early: bool },
}

impl Entry {
    /// The resource was free. The lease began after the command was sent.
    pub(super) fn free(token: Token, sent: Instant, lease: Duration) -> Self {
        Self { token, until: believed(sent, lease), handed_off: None, wanted: false }
    }

    /// The resource was granted by an earlier command, or after a wait. At server time `now` the server said that the
    /// lease ends at server time `x`.
    pub(super) fn granted(token: Token, sent: Instant, (now, x): (u64, u64), wanted: bool) -> Self {
        Self { token, until: believed_until(sent, now, x), handed_off: None, wanted }
    }

    /// The resource was granted by the script of another process, which sent a message. Others may wait behind it.
    pub(super) fn handed_over(grant: Grant) -> Self {
        let Grant { token, until, handed_off, .. } = grant;
        Self { token, until, handed_off: Some(handed_off), wanted: true }
    }

    /// Whether less than half of a handed-over lease is left.
    pub(super) fn is_to_be_confirmed(&self, grant_lease: Duration) -> bool {
        self.until.remaining() < grant_lease / 2
    }

    /// `until` is the end of the lease that this process may rely on, if the lease was extended.
    pub(super) fn confirmed(self, renewed: Renewed, until: Instant) -> Confirmed {
        match renewed {
            Renewed::Extended { wanted, .. } => {
                Confirmed::Renewed(Self { until, wanted: self.wanted || wanted, ..self })
            }
            // A forced release lets the holder use the rest of its lease.
            Renewed::Ending { .. } if !self.until.remaining().is_zero() => Confirmed::AsItIs,
            Renewed::Ending { now } => Confirmed::Gone { now, early: true },
            Renewed::Gone { now } => Confirmed::Gone { now, early: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);
    const GRANT: Duration = Duration::from_secs(2);

    fn entry(left: Duration) -> Entry {
        let (token, until) = (Token::new(7).unwrap(), Instant::now() + left);
        Entry { token, until, handed_off: None, wanted: false }
    }

    #[test]
    fn a_grant_is_confirmed_when_half_of_it_may_be_over() {
        assert!(!entry(LEASE).is_to_be_confirmed(GRANT));
        assert!(entry(GRANT / 3).is_to_be_confirmed(GRANT));
        assert!(!entry(GRANT / 3).is_to_be_confirmed(GRANT / 5));
    }

    #[test]
    fn each_renewal_of_a_grant_has_its_outcome() {
        let until = Instant::now() + LEASE;
        let extended = |wanted| Renewed::Extended { now: 5, wanted };
        let nearly_over = entry(GRANT / 3);
        for (before, told, after) in [(false, false, false), (true, false, true), (false, true, true)] {
            let renewed = Entry { wanted: before, ..nearly_over }.confirmed(extended(told), until);
            let Confirmed::Renewed(renewed) = renewed else { panic!("{renewed:?}") };
            assert_eq!((renewed.until, renewed.wanted), (until, after));
        }
        let ending = Renewed::Ending { now: 5 };
        assert!(matches!(nearly_over.confirmed(ending, until), Confirmed::AsItIs));
        let over = entry(Duration::ZERO);
        assert!(matches!(over.confirmed(ending, until), Confirmed::Gone { now: 5, early: true }));
        let gone = Renewed::Gone { now: 5 };
        assert!(matches!(entry(LEASE).confirmed(gone, until), Confirmed::Gone { now: 5, early: false }));
    }
}
