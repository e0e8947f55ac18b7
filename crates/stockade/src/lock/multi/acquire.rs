use std::{sync::Arc, time::Duration};

use tracing::{Instrument, Span};

use super::held_set::HeldSet;
use crate::{
    clock::Instant,
    lock::{LockError, outcome::Outcome, shared::Shared},
    spans,
    store::Attempt,
};

/// Acquires all resources, in the order that all processes use.
pub(super) async fn all(
    shared: &Arc<Shared>,
    attempts: Vec<Attempt>,
    max_hold: Option<Duration>,
) -> Result<HeldSet, LockError> {
    let since = Instant::now();
    if let Some(delegations) = &shared.delegations {
        attempts.iter().for_each(|attempt| delegations.recall(&attempt.key));
    }
    let at_once = match attempts.len() {
        1 => None,
        _ => at_once(shared, &attempts).await?,
    };
    let held = match at_once {
        Some(held) => held,
        None => in_turn(shared, attempts, since).await?,
    };
    held.complete(max_hold)?;
    Ok(held)
}

/// Acquires all of them in one step of the store, if the store has such a step and all are free.
async fn at_once(shared: &Arc<Shared>, attempts: &[Attempt]) -> Result<Option<HeldSet>, LockError> {
    let mut begun: Vec<_> = attempts
        .iter()
        .map(|attempt| (Outcome::begin(shared.series.of(attempt.key.label(), attempt.mode)), shared.guards.token()))
        .collect();
    let waiting = attempts.first().map_or_else(Span::none, |first| spans::lock_wait(first.key.label(), first.mode));
    let tried = tokio::select! {
        biased;
        () = shared.closing.cancelled() => Err(LockError::ShuttingDown),
        tried = shared.store.try_all(attempts).instrument(waiting) => tried,
    };
    let tried = tried.inspect_err(|error| begun.iter_mut().for_each(|(outcome, _)| outcome.refused(error)))?;
    let Some(ownerships) = tried else {
        begun.into_iter().for_each(|(outcome, _)| outcome.withdraw());
        return Ok(None);
    };
    let mut held = HeldSet::default();
    for ((outcome, counted), ownership) in begun.into_iter().zip(ownerships) {
        outcome.granted(&ownership);
        held.add(shared, ownership, counted);
    }
    Ok(Some(held))
}

/// Acquires one after the other, each with the time that the ones before it left of the wait.
async fn in_turn(shared: &Arc<Shared>, attempts: Vec<Attempt>, since: Instant) -> Result<HeldSet, LockError> {
    let mut held = HeldSet::default();
    for mut attempt in attempts {
        let (key, wait) = (attempt.key.clone(), attempt.wait);
        if wait != Duration::MAX {
            attempt.wait = wait.saturating_sub(since.elapsed());
        }
        // Taken before `closing` is checked, and given back after the attempt is counted, so that a shutdown waits for
        // both.
        let counted = shared.guards.token();
        let mut outcome = Outcome::begin(shared.series.of(key.label(), attempt.mode));
        let waiting = spans::lock_wait(key.label(), attempt.mode);
        let acquired = tokio::select! {
            biased;
            () = shared.closing.cancelled() => Err(LockError::ShuttingDown),
            lost = held.lost() => Err(lost),
            acquired = shared.store.acquire(attempt).instrument(waiting) => acquired,
        };
        match acquired {
            Ok(ownership) => {
                outcome.granted(&ownership);
                held.add(shared, ownership, counted);
            }
            Err(error) => {
                outcome.refused(&error);
                return Err(match error {
                    // The resources before this one used up the whole wait.
                    LockError::Busy { remaining } if !wait.is_zero() => {
                        LockError::Timeout { key, waited: since.elapsed(), remaining, position: None }
                    }
                    LockError::Timeout { key, remaining, position, .. } => {
                        LockError::Timeout { key, waited: since.elapsed(), remaining, position }
                    }
                    error => error,
                });
            }
        }
    }
    Ok(held)
}
