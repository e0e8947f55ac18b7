use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{
    sync::{Notify, oneshot},
    time::{sleep, timeout},
};

use super::{Flash, Made};
use crate::db::{self, flash_reservation::Decided};

/// How often Postgres is asked for reservations that another instance may have stored.
const LOOK: Duration = Duration::from_millis(50);

/// How many reservations one query asks for.
const BATCH: usize = 1_000;

/// Requests that wait until Postgres has their reservation.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: Mutex<HashMap<String, Vec<Waiter>>>,
    came: Notify,
}

/// A request whose reservation was let in under the counter of this generation.
#[derive(Debug)]
struct Waiter {
    generation: i64,
    told: oneshot::Sender<bool>,
}

impl Waiters {
    /// Whether the reservation that was let in under this counter was stored rather than rejected; `None` when that is
    /// not known within `limit`.
    pub(super) async fn wait(&self, reservation: &Made, limit: Duration) -> Option<bool> {
        let (told, waits) = oneshot::channel();
        let waiter = Waiter { generation: reservation.generation, told };
        self.waiting.lock().entry(reservation.id.clone()).or_default().push(waiter);
        self.came.notify_one();
        timeout(limit, waits).await.ok()?.ok()
    }

    /// Tells the requests that wait for the reservation, if the decision stands for them.
    pub(super) fn tell(&self, reservation: &str, decided: Decided) {
        let mut waiting = self.waiting.lock();
        let Some(all) = waiting.remove(reservation) else { return };
        let (told, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| decided.stands(one.generation));
        if !others.is_empty() {
            waiting.insert(reservation.to_owned(), others);
        }
        drop(waiting);
        for one in told {
            // A request that gave up has dropped its end.
            let _ = one.told.send(decided.stored);
        }
    }

    /// Asks Postgres about reservations that others may have stored, while requests wait.
    pub(super) async fn watch(&self, flash: &Flash, pg: &PgPool) {
        loop {
            let ids = self.ids();
            if ids.is_empty() {
                self.came.notified().await;
            }
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            for some in ids.chunks(BATCH) {
                match flash.answered(db::flash_reservation::known(pg, some)).await {
                    Ok(known) => known.iter().for_each(|(id, decided)| self.tell(id, *decided)),
                    Err(error) => tracing::debug!(%error, "reservations that are waited for are not known yet"),
                }
            }
            sleep(LOOK).await;
        }
    }

    /// The ids that requests still wait for.
    fn ids(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|_, all| {
            all.retain(|one| !one.told.is_closed());
            !all.is_empty()
        });
        waiting.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};

    use super::*;

    #[test]
    fn postgres_is_asked_for_all_that_are_waited_for() {
        let waiters = Waiters::default();
        let made: Vec<_> = (0..2 * BATCH).map(|number| Made { id: number.to_string(), generation: 1 }).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let mut waiting = join_all(made.iter().map(|made| waiters.wait(made, Duration::from_secs(60))));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(waiters.ids().len(), 2 * BATCH);
        drop(waiting);
        assert!(waiters.ids().is_empty());
    }
}
