//! An outage of the Redis of the attack while callers read both sides.

use std::time::Duration;

use tokio::time::sleep;

use super::{AttackError, ground::Ground, guarded::Way};

const LOAD_MS: u64 = 20;

/// How many items the callers read.
const KEYS: u32 = 20;

/// How long the callers read before the outage.
const WELL: Duration = Duration::from_secs(1);

/// Has callers read both sides for `seconds`. The outage `befalls` begins after the first second.
pub(super) async fn run(
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
