//! `inventory hold-locks`: the process that an attack of the lab kills.

use std::{future::pending, process::ExitCode, time::Duration};

use super::{Args, StartError, lock_store::LockStore};
use crate::{
    attack::{AttackError, HELD, take_locks},
    config::Config,
    console,
    ops::LockLog,
};

/// How long the locks outlive the process.
const LEASE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum HoldError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the locks were not taken")]
    Locks(#[from] AttackError),
}

/// Takes the locks of the attack, says so, and keeps them until somebody ends the process.
pub async fn hold_locks(args: &Args) -> ExitCode {
    match hold(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::failed(&error),
    }
}

async fn hold(args: &Args) -> Result<(), HoldError> {
    let mut config = Config::new(args).map_err(StartError::from)?;
    config.locks.lease = LEASE;
    let LockStore { locks, redis, .. } = LockStore::connect(&config, LockLog::default()).await?;
    let _held = take_locks(&locks, redis, config.database.options).await?;
    console::out(HELD);
    pending().await
}
