use std::{sync::Arc, time::Duration};

use super::LossReason;
use crate::{
    redis::LinkError,
    resource::{Key, KeyError},
};

/// Why a lock was not granted, or what else a store could not do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The resource has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The tag is over 64 bytes or holds a control character.
    #[error("a lock tag has at most 64 bytes and no control characters")]
    Tag,
    /// A duration is outside its limits.
    #[error("the {what} is {given:?}: it must be {}", range(*min, *max))]
    Duration {
        /// Which duration: `lease` or `max_hold`.
        what: &'static str,
        /// What was asked for.
        given: Duration,
        /// The least allowed.
        min: Duration,
        /// The most allowed; [`Duration::MAX`] if there is no limit.
        max: Duration,
    },
    /// A semaphore has no permits, or too many.
    #[error("a semaphore has 1 to {max} permits, not {given}")]
    Permits {
        /// What was asked for.
        given: u32,
        /// The most allowed.
        max: u32,
    },
    /// Somebody else holds the resource, and the attempt was not to wait.
    #[error("the resource is held: retry later, or set a wait")]
    Busy {
        /// Time left on the present lease.
        remaining: Duration,
    },
    /// The wait ended before the resource was free.
    #[error("waited {waited:?} for the lock on a `{}`: retry later or wait longer", key.label())]
    Timeout {
        /// The resource that was not free. If several resources were asked for, this is the one that the attempt was
        /// waiting for. The message shows only its label, since an id may be private.
        key: Key,
        /// How long the attempt waited.
        waited: Duration,
        /// Time left on the holder's lease when the store last reported it.
        remaining: Duration,
        /// The place in the queue, from 1, when the store last reported it. The attempt may have moved up since. `None`
        /// if the attempt never had a place.
        position: Option<u64>,
    },
    /// As many attempts as allowed are waiting already.
    #[error("{waiters} attempts are waiting already: retry later")]
    QueueFull {
        /// How many attempts wait.
        waiters: u64,
        /// The place that the attempt would have had, from 1.
        position: u64,
        /// Time left on the present lease.
        remaining: Duration,
    },
    /// The store gave no usable answer. An attempt that fails with this holds nothing. After a release that fails with
    /// it, the lock may be held until its lease ends.
    #[error("the lock store is unavailable ({reason}): retry in {retry_after:?}")]
    Unavailable {
        /// What was wrong.
        reason: Unavailable,
        /// When a retry makes sense.
        retry_after: Duration,
    },
    /// A key of the lock in the store holds a value that another program put there. The error remains until that value
    /// is deleted, or overwritten by [`Locks::force_release`](crate::Locks::force_release). Nothing is held.
    #[error(
        "a key of the lock on a `{}` holds something else than {expected} (the log names it): delete it, or overwrite it with \
         `force_release`; give the locks a key prefix of their own if another program writes there", key.label()
    )]
    Foreign {
        /// The resource.
        key: Key,
        /// What the key should hold.
        expected: Misplaced,
    },
    /// This kind of store can't do what was asked for. Nothing was sent.
    #[error("{store} locks have no {operation}: {instead}")]
    Unsupported {
        /// The kind of store.
        store: &'static str,
        /// What was asked for.
        operation: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// The semaphore is in use with another number of permits.
    #[error("the semaphore has {present} permits at present, {asked} were asked for: use one number everywhere")]
    Capacity {
        /// The permits of this request.
        asked: u32,
        /// The permits that the present holders or waiters asked for.
        present: u32,
    },
    /// A lock on several resources was asked for with none of them, or with more than [`MultiRequest::MAX`]. Nothing
    /// was sent.
    ///
    /// [`MultiRequest::MAX`]: crate::lock::MultiRequest::MAX
    #[error("a lock on several resources takes 1 to {max} of them, not {given}")]
    Count {
        /// How many were named. Counting stops at one more than `max`.
        given: usize,
        /// The most allowed.
        max: usize,
    },
    /// The lock was lost before the operation could be done. Either an attempt on several resources lost one that it
    /// held already while it waited for another, or a guard lost its lock. Nothing is held.
    #[error("the lock on a `{}` was lost ({reason}): nothing is held, try again", key.label())]
    Lost {
        /// The resource that was lost.
        key: Key,
        /// Why.
        reason: LossReason,
    },
    /// The lock can be neither shared nor handed over yet. Another task sent a commit under it that has not been
    /// answered, and that commit may be applied when others already read. Nothing has changed. If the answer never
    /// comes, [`Guard::downgrade`](crate::Guard::downgrade) says what to do.
    #[error("a commit under the lock on a `{}` was not answered: try again when it is; if it never is, see that its \
             transaction has ended before the lock is released, which lets readers in", key.label())]
    Committing {
        /// The resource.
        key: Key,
    },
    /// The handover was adopted before, or its lease has ended.
    #[error("the handover was adopted before, or its lease has ended: acquire the lock")]
    HandoverVoid,
    /// The locks were shut down.
    #[error("the locks are shutting down: no new grants")]
    ShuttingDown,
}

/// A range of durations, for people.
fn range(min: Duration, max: Duration) -> String {
    if max == Duration::MAX { format!("{min:?} or more") } else { format!("within {min:?} and {max:?}") }
}

/// What a key of a lock should hold, when the key holds something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Misplaced {
    /// The state of the lock: who holds it.
    #[error("the state of a lock")]
    State,
    /// The largest fencing token of the bucket.
    #[error("a floor of tokens")]
    Floor,
    /// The order of the waiters.
    #[error("the queue of a lock")]
    Queue,
    /// What the waiters asked for.
    #[error("the waiters of a lock")]
    Waiters,
    /// The leases of readers or permits.
    #[error("the holders of a lock")]
    Holders,
}

/// What was wrong with the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// No answer within the command time-out.
    #[error("no answer within the command time-out")]
    Timeout,
    /// The server answers, but this process had more commands for the server than it could send in time. This command
    /// was not sent.
    #[error("too many commands of this process wait for the store: start fewer at once, or wait longer")]
    Crowded,
    /// No connection. The command was not sent. One that is repeated, such as a release, may have been sent before.
    #[error("no connection")]
    Disconnected,
    /// The connection ended before the answer. The server may have executed the command.
    #[error("the connection ended before the answer")]
    Lost,
    /// A server answers but can't be used as it is, for instance because it is a replica. Somebody has to change its
    /// configuration or ours, or to promote the server. The store keeps trying it.
    #[error("no connection: {said}")]
    Unfit {
        /// Why the server can't be used, in words for people and without secrets.
        said: Arc<str>,
    },
    /// The breaker is open after repeated failures.
    #[error("circuit breaker open")]
    BreakerOpen,
    /// The server answered with an error: loading, read-only, out of memory, refused.
    #[error("the server refused the command")]
    Refused,
    /// The command arrived too late twice, and the script refused it.
    #[error("the command arrived too late")]
    Stale,
    /// Too few of the independent servers granted the lock in time. The grants that were made were given back.
    #[error("no quorum")]
    NoQuorum,
    /// The slot of the resource was being moved to another node for longer than the attempt could wait.
    #[error("the slot is being moved")]
    SlotMoving,
}

impl Unavailable {
    /// The reason for an error of the link, and when a retry makes sense. `unfit` says why the server can't be used; it
    /// replaces "no connection".
    pub(crate) fn of(error: &LinkError, unfit: Option<Arc<str>>) -> (Self, Duration) {
        let reason = match (error, unfit) {
            (LinkError::Down | LinkError::Open { .. }, Some(said)) => Self::Unfit { said },
            (LinkError::Timeout | LinkError::Unsent { silent: true }, _) => Self::Timeout,
            (LinkError::Unsent { silent: false }, _) => Self::Crowded,
            (LinkError::Lost, _) => Self::Lost,
            (LinkError::Down, None) => Self::Disconnected,
            (LinkError::Open { .. }, None) => Self::BreakerOpen,
            (LinkError::Moved | LinkError::Moving, _) => Self::SlotMoving,
            (LinkError::NoScript | LinkError::Refused { .. } | LinkError::Protocol { .. }, _) => Self::Refused,
        };
        let retry_after =
            if let LinkError::Open { retry_after } = error { *retry_after } else { Duration::from_secs(1) };
        (reason, retry_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_may_have_been_executed_has_another_reason_than_one_that_was_not_sent() {
        let reason = |error: LinkError, unfit: Option<&str>| Unavailable::of(&error, unfit.map(Arc::from)).0;
        assert_eq!(reason(LinkError::Down, None), Unavailable::Disconnected);
        assert_eq!(reason(LinkError::Down, Some("a replica")), Unavailable::Unfit { said: "a replica".into() });
        for unfit in [None, Some("a replica")] {
            assert_eq!(reason(LinkError::Lost, unfit), Unavailable::Lost);
        }
    }
}
