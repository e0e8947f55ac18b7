use std::{io, process::ExitStatus, time::Duration};

use crate::{orders::OrdersError, replay::ReplayError, seed::SeedingError};

/// Why the demonstration could not be given.
#[derive(Debug, thiserror::Error)]
pub(super) enum DemoError {
    #[error(transparent)]
    Testbed(#[from] stockade_testbed::Error),
    #[error(transparent)]
    Orders(#[from] OrdersError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("the private database failed")]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Seed(#[from] SeedingError),
    #[error("can't set up the HTTP client")]
    Http(#[from] reqwest::Error),
    #[error("can't run an instance")]
    Spawn(#[source] io::Error),
    #[error("{name} ended ({status}); the end of its log:\n{log}")]
    Ended { name: String, status: ExitStatus, log: String },
    #[error("{name} was not ready within {limit:?}; the end of its log:\n{log}")]
    NotReady { name: String, limit: Duration, log: String },
    #[error("{name} did not end within {limit:?} of SIGTERM and was killed; the end of its log:\n{log}")]
    NotStopped { name: String, limit: Duration, log: String },
}
