use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    Inside,
    keeper::Keeper,
    table::{Delegations, Way},
};
use crate::{
    clock::Instant,
    store::{Attempt, LockError},
};

impl Delegations {
    /// A reader's part in a delegation, within its wait. `None` if the reader is to lock by itself; `attempt.wait` is
    /// then what is left of its wait. Cancel safe.
    pub(in crate::lock) async fn share(
        self: &Arc<Self>,
        attempt: &mut Attempt,
        max_hold: Option<Duration>,
    ) -> Result<Option<Inside>, LockError> {
        let (since, wait) = (Instant::now(), attempt.wait);
        loop {
            let mut waiting = match self.way(attempt, max_hold)? {
                Way::Inside(inside) => return Ok(Some(inside)),
                Way::Together(waiting) => waiting,
                Way::First(waiting, joined, attempt) => {
                    Keeper::begin(self, attempt, joined);
                    waiting
                }
                Way::Alone => return Ok(None),
            };
            let inside = match wait {
                Duration::MAX => waiting.answer().await?,
                _ => match timeout(attempt.wait, waiting.answer()).await {
                    Ok(answer) => answer?,
                    Err(_) => return Err(waiting.timed_out(&attempt.key, since)),
                },
            };
            if inside.is_held() {
                return Ok(Some(inside));
            }
            // The ownership was lost before this reader had its turn.
            if wait != Duration::MAX {
                attempt.wait = wait.saturating_sub(since.elapsed());
                if attempt.wait.is_zero() {
                    return Err(waiting.timed_out(&attempt.key, since));
                }
            }
        }
    }
}
