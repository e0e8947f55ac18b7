use std::time::Duration;

use tokio::time::sleep;

use super::{AttackError, Callers, ground::Ground, outage};

const FROZEN: Duration = Duration::from_secs(5);

/// How long the readers read, in seconds: before, meanwhile and after.
const SECONDS: u32 = 8;

/// Reads in a second: the callers divided by this.
const PART: u32 = 20;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    let freeze = async {
        let frozen = server.freeze()?;
        sleep(FROZEN).await;
        drop(frozen);
        Ok(())
    };
    outage::run(ground, callers.get() / PART, SECONDS, freeze).await
}
