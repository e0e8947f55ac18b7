use std::time::Duration;

use tokio::time::sleep;

use super::{AttackError, Callers, ground::Ground, outage};

const GONE: Duration = Duration::from_secs(1);

/// How long the readers read, in seconds: before, meanwhile and after.
const SECONDS: u32 = 4;

/// Reads in a second: the callers divided by this.
const PART: u32 = 4;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    let restart = async {
        server.kill().await?;
        sleep(GONE).await;
        server.restart().await
    };
    outage::run(ground, callers.get() / PART, SECONDS, restart).await
}
