use super::{AttackError, Callers, ground::Ground, outage};

/// How long the readers read, in seconds: before and after.
const SECONDS: u32 = 3;

/// Reads in a second: the callers divided by this.
const PART: u32 = 2;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let server = ground.server()?;
    outage::run(ground, callers.get() / PART, SECONDS, server.flush()).await
}
