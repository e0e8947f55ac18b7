use stockade::{Locks, Redis};

use super::{StartError, redis::connect};
use crate::{
    config::{Config, Secret, quorum},
    http::Problem,
    ops::LockLog,
};

const VARIABLE: &str = "LOCK_REDIS_URL";

/// The locks and their servers.
pub(super) struct LockStore {
    pub(super) locks: Locks,
    /// The server of flash sales, and of a cache without a server of its own. The first of a quorum.
    pub(super) redis: Redis,
    /// Whether reads of one SKU share a lock.
    pub(super) shared_reads: bool,
}

impl LockStore {
    /// Writes the events of the locks into `log`.
    pub(super) async fn connect(config: &Config, log: LockLog) -> Result<Self, StartError> {
        let settings = &config.locks;
        let builder = Locks::builder()
            .lease(settings.lease)
            .max_waiters(settings.max_waiters)
            .on_reject(Problem::from)
            .on_event(move |event| log.note(event));
        if let Some(urls) = quorum(&settings.redis) {
            return Self::on_quorum(builder, &urls, config).await;
        }
        let redis = connect(VARIABLE, &settings.redis, config, false).await?;
        Ok(Self { locks: builder.redis(&redis), redis, shared_reads: true })
    }

    #[cfg(feature = "redlock")]
    async fn on_quorum(
        builder: stockade::lock::LocksBuilder,
        urls: &[Secret],
        config: &Config,
    ) -> Result<Self, StartError> {
        let mut servers = Vec::with_capacity(urls.len());
        for url in urls {
            servers.push(connect(VARIABLE, url, config, false).await?);
        }
        let locks = builder.redlock(servers.clone()).build()?;
        // Fewer than three servers were refused by now.
        let redis = servers.swap_remove(0);
        Ok(Self { locks, redis, shared_reads: false })
    }

    #[cfg(not(feature = "redlock"))]
    async fn on_quorum(
        _builder: stockade::lock::LocksBuilder,
        _urls: &[Secret],
        _config: &Config,
    ) -> Result<Self, StartError> {
        Err(StartError::NoRedlock)
    }
}
