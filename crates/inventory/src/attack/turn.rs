//! The turn of an attack: one at a time among all instances, until all that it started has ended.

use std::{borrow::Cow, time::Duration};

use stockade::{
    Locks, Resource,
    lock::{Guard, LockError},
};

use super::AttackError;

/// How long an attack waits for its turn. The servers of an attack that was stopped end well within it.
const PATIENCE: Duration = Duration::from_secs(10);

const TAKEN: &str = "another instance runs an attack: wait for its end";

#[derive(Clone, Copy, Debug)]
struct Turn;

impl Resource for Turn {
    const KIND: &'static str = "attack";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed("turn")
    }
}

/// Waits for the turn, which ends when the guard is released.
///
/// # Errors
///
/// [`AttackError::Elsewhere`]: an attack of another instance goes on. [`AttackError::Lock`].
pub(super) async fn take(locks: &Locks) -> Result<Guard, AttackError> {
    match locks.write(&Turn).wait(PATIENCE).acquire().await {
        Err(LockError::Timeout { .. }) => Err(AttackError::Elsewhere(TAKEN)),
        taken => Ok(taken?),
    }
}
