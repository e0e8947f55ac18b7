use std::{borrow::Cow, time::Duration};

use deadpool_redis::redis::aio::MultiplexedConnection;
use sqlx::PgPool;
use stockade::{Locks, Resource};
use tokio::time::sleep;

use super::Failure;
#[cfg(feature = "demo")]
use super::stops::Stops;
use crate::{domain, flash::Flash};

/// The servers and settings that a buyer uses.
#[derive(Debug)]
pub(super) struct World {
    /// Connections that find the table of the scheme under the name `stock`.
    pub(super) postgres: PgPool,
    pub(super) redis: MultiplexedConnection,
    /// The servers of Redlock; none in the service.
    pub(super) quorum: Vec<MultiplexedConnection>,
    pub(super) locks: Locks,
    pub(super) flash: Flash,
    pub(super) sku: Sku,
    /// The SKU of the flash sale.
    pub(super) product: domain::Sku,
    pub(super) lock_key: String,
    pub(super) counter_key: String,
    pub(super) lease: Duration,
    /// How long a buyer waits for a lock before it gives up.
    pub(super) patience: Duration,
    pub(super) think: Duration,
    #[cfg(feature = "demo")]
    pub(super) stops: Option<Stops>,
}

/// The one resource of a scheme.
#[derive(Clone, Debug)]
pub(super) struct Sku(pub(super) String);

impl Resource for Sku {
    const KIND: &'static str = "lab";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl World {
    /// Between read and write: here a buyer thinks, and here a holder is stopped.
    pub(super) async fn think(&self) -> Result<(), Failure> {
        if !self.think.is_zero() {
            sleep(self.think).await;
        }
        #[cfg(feature = "demo")]
        if let Some(stops) = &self.stops {
            stops.stop_if_due().await?;
        }
        Ok(())
    }
}

/// The key of the lock, for the schemes without Stockade's lock.
pub(super) fn lock_key(name: &str) -> String {
    format!("lab:{name}:lock")
}

/// The key of the stock, for the schemes that count in Redis.
pub(super) fn counter_key(name: &str) -> String {
    format!("lab:{name}:units")
}
