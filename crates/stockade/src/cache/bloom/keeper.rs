use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::StreamExt;
use rand::Rng;
use redis::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    scripts::{BEGIN, FINISH, LOOK},
    server::{Known, word},
    shared::{AT_ONCE, Added, LEASE, Shared, text},
};
use crate::{
    cache::{LoadError, error::share},
    redis::{LinkError, Succession},
};

/// How often the filter is looked at while it is complete.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// And while it is not.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// A filter that no process has looked at for so long goes.
const UNUSED: Duration = Duration::from_secs(86_400);

/// Looks after the filter until told to stop: builds it when it is not complete, and says when it is too full.
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
            match build(filter, Some(epoch)).await {
                Ok(true) => continue,
                // Not yet, or somebody else does.
                Ok(false) => {}
                Err(error) => tracing::warn!(filter = filter.name, %error, "the filter could not be built; reads pass"),
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
                "more keys than the filter was made for: raise `expected`, then call `Bloom::resize`"
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

/// What a look at the filter found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Complete,
    /// The number grows with every filter that is completed; 0 before the first.
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
        // It was emptied or cleared.
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

/// Builds the filter once more, as soon as nobody else does: whoever builds already may have read what is outdated by
/// now.
pub(super) async fn rebuild(filter: &Shared) -> Result<(), LoadError> {
    while !build(filter, None).await? {
        let pause = RETRY_EVERY.mul_f64(rand::rng().random_range(0.75..1.25));
        sleep(pause).await;
    }
    filter.server.came_up.notify_one();
    Ok(())
}

/// Builds the next epoch, unless it is too soon, another process does, or one has since the filter was found incomplete
/// at that epoch: otherwise every process of a fleet that starts would read the source. Whether it is complete now.
pub(super) async fn build(filter: &Shared, incomplete: Option<i64>) -> Result<bool, LoadError> {
    let builder = format!("{:032x}", rand::random::<u128>());
    let known = filter.server.known().ok_or_else(|| share(LinkError::Down))?;
    if known.has_rival() {
        // An id that is added there until then belongs to a transaction that is writing by then: a source that begins
        // later sees its row.
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
    ];
    match word(&filter.call(&BEGIN, args).await.map_err(share)?) {
        Some("BUILDING") => {}
        Some("RESEED") => {
            filter.reopen().await.map_err(share)?;
            return Ok(false);
        }
        _ => return Ok(false),
    }
    // From here on everybody adds to this epoch, too, and the source may be read.
    let mut source = (filter.source)().chunks(AT_ONCE);
    loop {
        // A source that stands still must not outlive the lease.
        let keys = match timeout(LEASE / 2, source.next()).await {
            Ok(Some(keys)) => keys.into_iter().collect::<Result<Vec<_>, _>>()?,
            Ok(None) => break,
            Err(_) => return Err(share("the source of the filter stands still")),
        };
        if filter.add(&keys, &builder).await.map_err(share)? == Added::Lost {
            return Ok(false);
        }
    }
    let args = vec![builder.into_bytes(), run.as_bytes().to_vec()];
    Ok(word(&filter.call(&FINISH, args).await.map_err(share)?) == Some("COMPLETE"))
}
