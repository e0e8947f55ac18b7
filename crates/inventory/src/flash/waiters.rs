use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::PgPool;
use tokio::{
    sync::{Notify, oneshot},
    time::{sleep, timeout},
};

use crate::db;

/// How often Postgres is asked for reservations that another instance may have stored.
const LOOK: Duration = Duration::from_millis(50);

/// How many are asked for at once.
const BATCH: usize = 1000;

/// Requests that wait until Postgres has their reservation.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<bool>>>>,
    came: Notify,
}

impl Waiters {
    /// Whether the reservation was stored rather than rejected; `None` when that is not known within `limit`.
    pub(super) async fn wait(&self, reservation: &str, limit: Duration) -> Option<bool> {
        let (told, waits) = oneshot::channel();
        self.lock().entry(reservation.to_owned()).or_default().push(told);
        self.came.notify_one();
        timeout(limit, waits).await.ok()?.ok()
    }

    /// Tells those who wait for it.
    pub(super) fn tell(&self, reservation: &str, stored: bool) {
        for waiting in self.lock().remove(reservation).unwrap_or_default() {
            // Whoever gave up hears nothing.
            let _ = waiting.send(stored);
        }
    }

    /// Asks Postgres for what others stored, as long as somebody waits.
    pub(super) async fn watch(&self, pg: &PgPool) {
        loop {
            let ids = self.ids();
            if ids.is_empty() {
                self.came.notified().await;
            } else {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                match db::flash_reservation::known(pg, &ids).await {
                    Ok(known) => known.iter().for_each(|(id, stored)| self.tell(id, *stored)),
                    Err(error) => tracing::debug!(%error, "reservations that are waited for are not known yet"),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Those that are still waited for.
    fn ids(&self) -> Vec<String> {
        let mut waiting = self.lock();
        waiting.retain(|_, all| {
            all.retain(|one| !one.is_closed());
            !all.is_empty()
        });
        waiting.keys().take(BATCH).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<oneshot::Sender<bool>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
