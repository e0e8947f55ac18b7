use std::{sync::Arc, time::Duration};

use stockade::redis::Pool;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::{
    Count, LabError, Sale, Scheme,
    stand::{Place, Stand},
};
use crate::config::Database;

/// The schemes of the lab in a running service, on tables and keys of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lab {
    stands: Arc<[(Scheme, Arc<Stand>)]>,
    tasks: TaskTracker,
}

impl Lab {
    /// Connects nothing and creates nothing yet. `None` where the locks are on a cluster.
    pub(crate) fn new(place: Place, database: &Database) -> Option<Self> {
        if matches!(place.redis.pool(), Some(Pool::Cluster(_))) {
            return None;
        }
        let place = Arc::new(place);
        let stand = |scheme| (scheme, Arc::new(Stand::new(scheme, Arc::clone(&place), database)));
        Some(Self { stands: Scheme::served().map(stand).collect(), tasks: TaskTracker::new() })
    }

    /// Begins a new run of a scheme, with so many units.
    ///
    /// # Errors
    ///
    /// [`LabError`]. [`LabError::Selling`]: nothing has changed.
    pub(crate) async fn set(&self, scheme: Scheme, units: i64) -> Result<(), LabError> {
        self.stand(scheme)?.set(units).await
    }

    /// Sells one unit. The sale goes on to its end when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LabError`].
    pub(crate) async fn sell(&self, scheme: Scheme) -> Result<Sale, LabError> {
        let stand = Arc::clone(self.stand(scheme)?);
        let place = stand.enter()?;
        let sale = async move {
            let sale = stand.sell().await;
            drop(place);
            sale
        };
        self.tasks.spawn(sale.in_current_span()).await.unwrap_or(Err(LabError::Unfinished))
    }

    /// The sales of a scheme in its last run.
    ///
    /// # Errors
    ///
    /// [`LabError`].
    pub(crate) async fn count(&self, scheme: Scheme) -> Result<Count, LabError> {
        self.stand(scheme)?.count().await
    }

    /// Waits for sales under way, and closes the connections.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        let end = async {
            self.tasks.close();
            self.tasks.wait().await;
            for (_, stand) in self.stands.iter() {
                stand.close().await;
            }
        };
        if timeout(limit, end).await.is_err() {
            tracing::warn!("a sale of the lab was still under way");
        }
    }

    fn stand(&self, scheme: Scheme) -> Result<&Arc<Stand>, LabError> {
        let stand = self.stands.iter().find(|(of, _)| *of == scheme);
        stand.map(|(_, stand)| stand).ok_or(LabError::Elsewhere(scheme))
    }
}
