use std::{sync::Arc, time::Duration};

use super::LossReason;
use crate::resource::{Key, KeyError};

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
    #[error("the {what} is {given:?}: it must be within {min:?} and {max:?}")]
    Duration {
        /// Which one: `lease`, `delegation lease` or `max_hold`.
        what: &'static str,
        /// What was asked for.
        given: Duration,
        /// The least allowed.
        min: Duration,
        /// The most allowed.
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
    /// Somebody else holds it, and the attempt was not to wait.
    #[error("the resource is held; its lease ends in {remaining:?}")]
    Busy {
        /// Time left on the present lease.
        remaining: Duration,
    },
    /// The wait ended before the resource was free.
    #[error("waited {waited:?} for the lock on a `{}`: retry later or wait longer", key.label())]
    Timeout {
        /// The resource that was not free: of several, the one that the attempt was waiting for. The message shows only
        /// its label, since an id may be nobody else's business.
        key: Key,
        /// How long the attempt waited.
        waited: Duration,
        /// Time left on the holder's lease when last seen.
        remaining: Duration,
        /// Its place in the queue when the store last told it, from 1; it may have moved up since. `None` when it never
        /// had one.
        position: Option<u64>,
    },
    /// As many as allowed are waiting already.
    #[error("{waiters} attempts are waiting already: retry later")]
    QueueFull {
        /// How many wait.
        waiters: u64,
        /// The place it would have had, from 1.
        position: u64,
        /// Time left on the present lease.
        remaining: Duration,
    },
    /// The store gave no usable answer. Nothing is held.
    #[error("the lock store is unavailable ({reason}): nothing was locked, retry in {retry_after:?}")]
    Unavailable {
        /// What was wrong.
        reason: Unavailable,
        /// When a retry makes sense.
        retry_after: Duration,
    },
    /// A key of the lock in the store holds what another program put there. It stays so until that is deleted, or
    /// overwritten by [`Locks::force_release`](crate::Locks::force_release). Nothing is held.
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
    /// The kind of store can't do what was asked for. Nothing was sent.
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
        /// The permits of those who hold or wait.
        present: u32,
    },
    /// Several resources were asked for at once, and not between 1 and [`MultiRequest::MOST`] of them. Nothing was
    /// sent.
    ///
    /// [`MultiRequest::MOST`]: crate::lock::MultiRequest::MOST
    #[error("a lock on several resources takes 1 to {most} of them, not {given}")]
    Count {
        /// How many were named; more were not counted than one over `most`.
        given: usize,
        /// The most allowed.
        most: usize,
    },
    /// The lock was lost before what was asked for could be done: of several resources one that was held already, while
    /// the attempt waited for another, or the lock of a guard. Nothing is held.
    #[error("the lock on a `{}` was lost ({}): nothing is held, try again", key.label(), reason.as_str())]
    Lost {
        /// The resource that was lost.
        key: Key,
        /// Why.
        reason: LossReason,
    },
    /// The lock can be neither shared nor handed over yet: a commit under it, in another task, has not been answered,
    /// and may be applied when others read already. Nothing has changed. Where the answer never comes, see
    /// [`Guard::downgrade`](crate::Guard::downgrade) for what to do.
    #[error("a commit under the lock on a `{}` was not answered: try again when it is; if it never is, see that its \
             transaction has ended before the lock is released, which lets readers in", key.label())]
    Committing {
        /// The resource.
        key: Key,
    },
    /// A handover was adopted before, or its lease ended.
    #[error("the handover was adopted before, or its lease has ended: acquire the lock")]
    HandoverVoid,
    /// The locks were shut down.
    #[error("the locks are shutting down: no new grants")]
    ShuttingDown,
}

/// What a key of a lock should hold when it holds something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misplaced {
    /// Who holds the lock.
    #[error("the state of a lock")]
    State,
    /// The largest fencing token of the bucket.
    #[error("a floor of tokens")]
    Floor,
    /// The order of those who wait.
    #[error("the queue of a lock")]
    Queue,
    /// What those who wait asked for.
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
    /// The server answers, and this process had more to ask it than it could send in time: nothing was sent.
    #[error("too many commands of this process wait for the store: start fewer at once, or wait longer")]
    Crowded,
    /// No connection.
    #[error("no connection")]
    Disconnected,
    /// A server answers and can't be used as it is, a replica for instance: somebody has to change its configuration or
    /// ours, or to promote it. It is tried again all the while.
    #[error("no connection: {said}")]
    Unfit {
        /// What it has against it, in words for people and without secrets.
        said: Arc<str>,
    },
    /// The breaker is open after repeated failures.
    #[error("circuit breaker open")]
    BreakerOpen,
    /// The server answered with an error: loading, read-only, out of memory, refused.
    #[error("the server refused the command")]
    Refused,
    /// The command arrived too late twice and was refused by the script.
    #[error("the command arrived too late")]
    Stale,
    /// Too few replicas confirmed the grant in time; it was given back.
    #[error("too few replicas confirmed")]
    Unreplicated,
    /// Too few of the independent servers granted it in time; what was granted was given back.
    #[error("no quorum")]
    NoQuorum,
    /// The resource's slot was on its way to another node for longer than the attempt could wait.
    #[error("the slot is being moved")]
    SlotMoving,
}
