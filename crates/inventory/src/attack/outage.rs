//! An outage of the Redis of the attack while callers read both sides.

use std::time::Duration;

use tokio::time::sleep;

use super::{AttackError, Callers, ground::Ground, guarded::Way};

const LOAD_MS: u64 = 20;

/// How many items the callers read.
const KEYS: u32 = 20;

/// How long the callers read before the outage.
const WELL: Duration = Duration::from_secs(1);

/// Redis stands still for five seconds.
pub(super) async fn frozen(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    let freeze = async {
        let frozen = server.freeze()?;
        sleep(Duration::from_secs(5)).await;
        drop(frozen);
        Ok(())
    };
    run(ground, callers.get().div_ceil(20), 8, freeze).await
}

/// Redis is away for one second.
pub(super) async fn restarted(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    let restart = async {
        server.kill().await?;
        sleep(Duration::from_secs(1)).await;
        server.restart().await
    };
    run(ground, callers.get() / 4, 4, restart).await
}

/// Redis loses all its keys.
pub(super) async fn flushed(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    run(ground, callers.get() / 2, 3, server.flush()).await
}

/// Has callers read both sides for `seconds`. The outage `befalls` begins after the first second.
async fn run(
    ground: &Ground,
    per_second: u32,
    seconds: u32,
    befalls: impl Future<Output = Result<(), AttackError>> + Send,
) -> Result<(), AttackError> {
    ground.prepare(LOAD_MS).await?;
    tokio::try_join!(ground.on.warm(KEYS, Way::SingleFlight), ground.off.warm(KEYS))?;
    ground.begin();
    let later = async {
        sleep(WELL).await;
        befalls.await
    };
    tokio::join!(ground.pace(KEYS, per_second, seconds), later).1
}
