use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use rand::Rng;
use redis::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    scripts::{BEGIN, FINISH, LOOK},
    server::{Known, word},
    shared::{AT_ONCE, LEASE, Shared, text},
};
use crate::{
    cache::LoadError,
    chain::Chain,
    redis::{LinkError, Succession},
};

/// How often the filter is looked at while it is complete.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the filter is looked at while it is not complete.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// A filter that no process has looked at for this long is deleted.
const UNUSED: Duration = Duration::from_secs(86_400);

/// Looks after the filter until told to stop: builds it if it is not complete, and warns if it holds too many keys.
pub(super) async fn keep(filter: Arc<Shared>, stop: CancellationToken) {
    let _ = stop.run_until_cancelled(watch(&filter)).await;
}

async fn watch(filter: &Shared) {
    let mut warned = false;
    filter.first_attempt.of(&filter.link).await;
    loop {
        let looked = look(filter).await;
        let ready = matches!(looked, Ok(State::Complete));
        filter.ready.store(ready, Ordering::Release);
        if let Ok(State::Incomplete { epoch }) = looked {
            // The source is code of the application. If it panics, the filter is tried again like after any failure.
            match AssertUnwindSafe(build(filter, Some(epoch))).catch_unwind().await {
                Ok(Ok(true)) => continue,
                // It is too early, or another process builds.
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    let error = Chain(&*error);
                    tracing::warn!(filter = filter.name, %error, "the filter could not be built; reads pass");
                }
                Err(_panic) => tracing::error!(filter = filter.name, "the source of the filter panicked; reads pass"),
            }
        }
        let held = filter.held.load(Ordering::Acquire);
        let too_full = held > filter.expected;
        if too_full && !warned {
            let (filter, expected) = (filter.name, filter.expected);
            tracing::warn!(
                filter,
                held,
                expected,
                "more keys than the filter was made for: increase `expected`, then call `Bloom::resize`"
            );
        }
        warned = too_full;
        let pause = if ready { LOOK_EVERY } else { RETRY_EVERY };
        let pause = pause.mul_f64(rand::rng().random_range(0.75..1.25));
        tokio::select! {
            () = sleep(pause) => {}
            () = filter.server.came_up.notified() => {}
        }
    }
}

/// The state of the filter, as found on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Complete,
    /// The epoch is 0 before the first filter is complete, and grows with every filter that is completed.
    Incomplete {
        epoch: i64,
    },
}

pub(super) async fn look(filter: &Shared) -> Result<State, LinkError> {
    let Known { run, design, may_have_rival, .. } = filter.server.known().ok_or(LinkError::Down)?;
    if may_have_rival {
        let info = filter.link.command("cache_replication", redis::cmd("INFO")).await?;
        if let Ok(info) = redis::from_redis_value::<String>(info) {
            filter.server.looked(&run, Succession::of(&info, false));
        }
    }
    let args = vec![run.as_bytes().to_vec(), text(UNUSED.as_millis()), design.seed.text().into_bytes()];
    let reply = filter.call(&LOOK, args).await?;
    if word(&reply) == Some("RESEED") {
        // The server was emptied, or the filter was cleared or resized.
        filter.reopen().await?;
        return Ok(State::Incomplete { epoch: 0 });
    }
    let Value::Array(values) = &reply else { return Err(LinkError::Protocol { op: LOOK.name }) };
    let [_, Value::Int(keys), Value::Int(epoch)] = values[..] else {
        return Err(LinkError::Protocol { op: LOOK.name });
    };
    filter.held.store(u64::try_from(keys).unwrap_or_default(), Ordering::Release);
    Ok(if word(&reply) == Some("READY") { State::Complete } else { State::Incomplete { epoch } })
}

/// Builds the filter again, once no other process does. A build that is already running is not enough: it may have read
/// ids whose rows are gone now.
pub(super) async fn rebuild(filter: &Shared) -> Result<(), LoadError> {
    while !build(filter, None).await? {
        let pause = RETRY_EVERY.mul_f64(rand::rng().random_range(0.75..1.25));
        sleep(pause).await;
    }
    filter.server.came_up.notify_one();
    Ok(())
}

/// Builds the next epoch. Returns whether this call completed it.
///
/// It does not build if it is too early, if another process builds, or if the epoch is no longer `incomplete`, because
/// a process has completed the filter since. Otherwise every process of a fleet that starts would read the source.
pub(super) async fn build(filter: &Shared, incomplete: Option<i64>) -> Result<bool, LoadError> {
    let builder = format!("{:032x}", rand::random::<u128>());
    let known = filter.server.known().ok_or_else(|| LoadError::new(LinkError::Down))?;
    if known.has_rival() {
        // An id that is added on the other server belongs to a transaction that has written by then. A source that
        // begins to read later sees the row of that transaction.
        tracing::debug!(filter = filter.name, "not built yet: another server may still be taking ids");
        return Ok(false);
    }
    let Known { run, design, .. } = known;
    let args = vec![
        design.seed.text().into_bytes(),
        builder.clone().into_bytes(),
        text(LEASE.as_millis()),
        text(design.geometry.bits),
        run.as_bytes().to_vec(),
        incomplete.map(|epoch| epoch.to_string().into_bytes()).unwrap_or_default(),
        text(UNUSED.as_millis()),
    ];
    match word(&filter.call(&BEGIN, args).await.map_err(LoadError::new)?) {
        Some("BUILDING") => {}
        Some("RESEED") => {
            filter.reopen().await.map_err(LoadError::new)?;
            return Ok(false);
        }
        _ => return Ok(false),
    }
    // From now on every process also adds to this epoch, so the source may be read.
    let mut source = (filter.source)().chunks(AT_ONCE);
    loop {
        // A source that is too slow is given up while the lease still holds.
        let keys = match timeout(LEASE / 2, source.next()).await {
            Ok(Some(keys)) => keys.into_iter().collect::<Result<Vec<_>, _>>()?,
            Ok(None) => break,
            Err(_) => {
                let limit = LEASE / 2;
                return Err(LoadError::new(format!(
                    "the source of the filter took over {limit:?} for {AT_ONCE} ids: make it faster"
                )));
            }
        };
        if !filter.add(&keys, &builder).await.map_err(LoadError::new)? {
            return Ok(false);
        }
    }
    let args = vec![builder.into_bytes(), run.as_bytes().to_vec()];
    Ok(word(&filter.call(&FINISH, args).await.map_err(LoadError::new)?) == Some("COMPLETE"))
}
