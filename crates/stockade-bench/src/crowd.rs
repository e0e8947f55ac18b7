//! One resource that a thousand tasks of one process want at the same moment.

use std::{sync::Arc, time::Duration};

use rslock::{LockError, LockManager};
use stockade::{Locks, Redis};
use stockade_testbed::RedisServer;
use tokio::{sync::Mutex, task::JoinSet, time::Instant};

use crate::{
    contender::Failure,
    locks::Order,
    report::{Figures, quantile},
};

const CALLERS: usize = 1_000;
const ROUNDS: usize = 9;

/// When each caller was served that was served at all, in ms from the beginning.
struct Round(Vec<f64>);

/// Sections without work, one for each caller, each library with its defaults. As many wait as may by Stockade's.
pub(crate) async fn figures(server: &RedisServer) -> Result<Figures, Failure> {
    let mutex = Arc::new(Mutex::new(()));
    let locks = Locks::new(&Redis::connect(server.url()).await?);
    let peer = LockManager::new(vec![server.url()]);
    let mut rounds: [Vec<Round>; 4] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(round(|| within(Arc::clone(&mutex))).await?);
        rounds[1].push(round(|| tried(peer.clone())).await?);
        rounds[2].push(round(|| polled(peer.clone())).await?);
        rounds[3].push(round(|| queued(locks.clone())).await?);
    }
    let names = [
        "tokio's Mutex, which knows only its process",
        "rslock, `lock`, which tries three times",
        "rslock, `acquire`, which tries until it is served",
        "stockade, a write lock",
    ];
    let row = |(name, rounds): (&str, Vec<Round>)| {
        // The worst round: one caller that was refused must show.
        let served = rounds.iter().map(|Round(served)| served.len()).min().unwrap_or_default();
        let at = |part: f64| quantile(rounds.iter().map(|round| quantile(round.0.clone(), part)).collect(), 0.5);
        (name.to_owned(), vec![served as f64, at(0.5), at(1.0)])
    };
    Figures::new(
        "1,000 tasks of one process want one resource at once, each library with its defaults, mimalloc",
        &["served in the worst round", "ms until half of those were", "ms until all of those were"],
        names.into_iter().zip(rounds).map(row).collect(),
    )
}

async fn round<F>(caller: impl Fn() -> F) -> Result<Round, Failure>
where
    F: Future<Output = Result<bool, Failure>> + Send + 'static,
{
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let caller = caller();
        callers.spawn(async move { Ok::<_, Failure>((caller.await?, began.elapsed())) });
    }
    let mut served = Vec::with_capacity(CALLERS);
    while let Some(ended) = callers.join_next().await {
        let (is_served, after) = ended??;
        served.extend(is_served.then_some(after.as_secs_f64() * 1e3));
    }
    Ok(Round(served))
}

async fn within(mutex: Arc<Mutex<()>>) -> Result<bool, Failure> {
    drop(mutex.lock().await);
    Ok(true)
}

async fn tried(peer: LockManager) -> Result<bool, Failure> {
    match peer.lock(b"crowd".as_slice(), Duration::from_secs(10)).await {
        Ok(lock) => {
            peer.unlock(&lock).await;
            Ok(true)
        }
        Err(LockError::Unavailable) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn polled(peer: LockManager) -> Result<bool, Failure> {
    peer.acquire(b"crowd".as_slice(), Duration::from_secs(10)).await?.release().await;
    Ok(true)
}

async fn queued(locks: Locks) -> Result<bool, Failure> {
    locks.write(&Order("crowd".to_owned())).acquire().await?.release().await?;
    Ok(true)
}
