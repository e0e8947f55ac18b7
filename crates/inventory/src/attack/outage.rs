//! What befalls the Redis of the attack while both sides are read.

use std::time::Duration;

use tokio::time::sleep;

use super::{AttackError, ground::Ground, guarded::Way};

const LOAD_MS: u64 = 20;

/// How many items are read.
const KEYS: u32 = 20;

/// How long all is well at first.
const WELL: Duration = Duration::from_secs(1);

/// Has both sides read for so many seconds. What befalls their server begins after the first.
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
