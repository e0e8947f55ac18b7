use std::{sync::Arc, time::Duration};

use rand::Rng;

use super::fixture::{Fixture, attempt, key, write};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, Mode},
};

pub(crate) async fn attempts_cancelled_at_any_point_leave_nothing(fixture: &Fixture) {
    const TASKS: usize = 12;
    const ROUNDS: usize = 25;
    let key = key("cancelled");
    // Limits for which some attempts are granted and some are not, at the present speed of this machine.
    let began = Instant::now();
    let first = fixture.take(0, write(&key)).await;
    let most = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX).clamp(2_000, 1_000_000) * 4;
    fixture.release(0, &first).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..TASKS {
        let (store, key, shares) = (Arc::clone(fixture.store(n)), key.clone(), fixture.shares());
        tasks.spawn(async move {
            let (mut granted, mut longest) = (0, most);
            for _ in 0..ROUNDS {
                let kinds = if shares { 3 } else { 1 };
                let mode = [Mode::Write, Mode::Read, Mode::Permit][rand::rng().random_range(0..kinds)];
                let wait = Duration::from_micros(rand::rng().random_range(0..longest * 5));
                let limit = Duration::from_micros(rand::rng().random_range(0..longest));
                // The lease outlives the test, so a lock that is left behind stays visible.
                let attempt = Attempt { permits: 3, lease: Duration::from_secs(60), wait, ..attempt(&key, mode) };
                // The limit drops the future at a random point.
                match tokio::time::timeout(limit, store.acquire(attempt)).await {
                    Ok(Ok(ownership)) => {
                        granted += 1;
                        tokio::time::sleep(limit / 4).await;
                        if rand::rng().random_bool(0.5) {
                            // After a cancelled release the detached one below does the rest, as for guards.
                            let _ = tokio::time::timeout(limit / 8, store.release(&ownership)).await;
                        }
                        store.release_detached(ownership);
                    }
                    // The machine may have become slower since.
                    Ok(Err(LockError::Busy { .. } | LockError::Timeout { .. })) | Err(_) => longest += longest / 4,
                    Ok(Err(error)) => panic!("{error}"),
                }
            }
            granted
        });
    }
    let granted: u64 = tasks.join_all().await.into_iter().sum();
    assert!(granted > 0, "nothing was ever granted, so nothing was tested");
    fixture.until_nothing_is_left().await;
    let inspection = fixture.inspect(&key).await;
    assert!(inspection.holders.is_empty() && inspection.waiting == 0, "{inspection:?}");
    assert!(fixture.is_free(&key, Mode::Write).await);
}
