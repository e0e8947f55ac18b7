//! Carries the entries of one sale from the stream to Postgres.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    error::Error,
    mem,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sqlx::PgPool;
use tokio::time::Instant;

use super::{
    Reservation, SaleId,
    carry::{CarryError, Fate, carry},
    desk::Flash,
    link::{Link, LinkError},
    stream::{self, Entry, STUCK},
};
use crate::{
    db::{self, flash_dead_letter::DeadLetter, flash_reservation::Decided},
    domain::Sku,
    metrics::{self, FlashFate},
    traces,
};

/// How often an entry that the database refuses is tried before it is a dead letter.
const TRIES: u32 = 5;

/// How often this consumer looks for entries of others.
const CLAIM: Duration = Duration::from_secs(1);

/// Why a round ended early. The next round reads the same entries again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoundError {
    #[error(transparent)]
    Redis(#[from] LinkError),
    #[error(transparent)]
    Database(#[from] CarryError),
}

/// The consumer of one sale in one instance.
#[derive(Debug)]
pub(crate) struct Consumer {
    sku: Sku,
    name: String,
    /// Entries were read and not finished.
    behind: bool,
    claimed: Option<Instant>,
    /// How many entries were in the stream when it was last asked.
    left: i64,
    /// Since when entries wait and none of them is for this consumer to read.
    waiting: Option<Instant>,
    /// How often the database refused an entry, by entry.
    refusals: HashMap<String, u32>,
    /// The entries among the dead letters that are still in the stream.
    buried: HashSet<String>,
}

impl Consumer {
    pub(crate) fn new(sku: Sku, name: &str) -> Self {
        Self {
            sku,
            name: name.to_owned(),
            behind: false,
            claimed: None,
            left: 0,
            waiting: None,
            refusals: HashMap::new(),
            buried: HashSet::new(),
        }
    }

    /// How many entries were left in the stream when it was last looked at, at most a second ago.
    pub(crate) fn left(&self) -> i64 {
        self.left
    }

    /// Asks how many entries are left, since a round that fails does not. Without an answer the last number stays.
    pub(crate) async fn count(&mut self, flash: &Flash) {
        if let Ok(left) = stream::length(&flash.counter().link, &self.sku).await {
            self.left = left;
        }
    }

    /// Reads a batch, stores it, and only then removes it from the stream. Returns how many entries it finished.
    pub(crate) async fn round(&mut self, flash: &Flash, pg: &PgPool) -> Result<usize, RoundError> {
        let link = &flash.counter().link;
        // A read without an answer may have given this consumer entries.
        let again = mem::replace(&mut self.behind, true);
        let mut entries = stream::read(link, &self.sku, &self.name, again).await?;
        let has_read = !entries.is_empty();
        if has_read {
            self.waiting = None;
        }
        if self.claimed.is_none_or(|last| last.elapsed() > CLAIM) {
            self.claimed = Some(Instant::now());
            let own: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
            let idle = self.idle(link, has_read).await?;
            let claimed = stream::claim(link, &self.sku, &self.name, idle).await?;
            entries.extend(claimed.into_iter().filter(|entry| !own.contains(&entry.id)));
        }
        // The next round reads these entries again unless all are finished below.
        self.behind = !entries.is_empty();
        if entries.is_empty() {
            return Ok(0);
        }
        let (finished, repeated) = self.store(flash, pg, &entries).await?;
        if !finished.is_empty() {
            self.left = flash.counter().settle(&self.sku, &finished).await?;
        }
        for entry in &finished {
            self.refusals.remove(&entry.id);
            self.buried.remove(&entry.id);
        }
        // An entry that can't be removed is repeated each time, and must not look as if something was done.
        metrics::flash_repeated(repeated);
        self.behind = finished.len() < entries.len();
        Ok(finished.len())
    }

    /// How long the entries of another consumer have to be idle before this one claims them.
    ///
    /// That is a time by the clock of Redis. If that clock was set back, it takes hours to see that a consumer died. So
    /// if entries wait for as long by the clock of this process, and there is none to read, it claims all of them. An
    /// entry that two consumers store is stored once.
    async fn idle(&mut self, link: &Link, has_read: bool) -> Result<Duration, LinkError> {
        if !has_read {
            self.left = stream::length(link, &self.sku).await?;
        }
        if has_read || self.left == 0 {
            self.waiting = None;
            return Ok(STUCK);
        }
        let since = *self.waiting.get_or_insert_with(Instant::now);
        Ok(if since.elapsed() > STUCK { Duration::ZERO } else { STUCK })
    }

    /// Stores entries. Returns those that are stored, rejected or dead letters, and how many of them were before.
    #[tracing::instrument(name = "flash.store", level = "debug", skip_all, fields(entries = entries.len()))]
    async fn store<'a>(
        &mut self,
        flash: &Flash,
        pg: &PgPool,
        entries: &'a [Entry],
    ) -> Result<(Vec<&'a Entry>, u64), RoundError> {
        traces::link(entries.iter().filter_map(|entry| entry.traceparent.as_deref()));
        let (mut finished, mut repeated) = (Vec::with_capacity(entries.len()), 0);
        let mut of_sale: BTreeMap<SaleId, Vec<(&'a Entry, &'a Reservation)>> = BTreeMap::new();
        for entry in entries {
            match &entry.reservation {
                Ok(reservation) => of_sale.entry(reservation.sale).or_default().push((entry, reservation)),
                Err(fields) => {
                    self.bury(flash, pg, entry, fields, "it is no reservation").await?;
                    finished.push(entry);
                }
            }
        }
        let mut left: VecDeque<_> = of_sale.into_iter().collect();
        while let Some((sale, all)) = left.pop_front() {
            let reservations: Vec<&Reservation> = all.iter().map(|(_, reservation)| *reservation).collect();
            match (flash.answered(carry(pg, sale, &reservations)).await, &*all) {
                (Ok(fates), _) => {
                    for ((entry, reservation), fate) in all.iter().zip(fates) {
                        repeated += u64::from(matches!(fate, Fate::Repeated(_)));
                        tell(flash, entry, reservation, fate);
                        finished.push(*entry);
                    }
                }
                // A database that is away says nothing about the entries, however often it is asked.
                (Err(error @ CarryError::Away(_)), _) => return Err(error.into()),
                (Err(error), &[(entry, reservation)]) => {
                    let refusals = self.refusals.entry(entry.id.clone()).or_default();
                    *refusals += 1;
                    if *refusals >= TRIES {
                        let cause = error.source().map_or_else(|| error.to_string(), |cause| cause.to_string());
                        self.bury(flash, pg, entry, &format!("{reservation:?}"), &cause).await?;
                        let decided = Decided { stored: false, generation: reservation.generation };
                        flash.waiters().tell(&reservation.id, decided);
                        finished.push(entry);
                    }
                }
                // One entry spoils the batch, so each is stored by itself. Those of a sale keep their order.
                (Err(_), _) => left.extend(all.iter().map(|&one| (sale, vec![one]))),
            }
        }
        Ok((finished, repeated))
    }

    /// Keeps an entry among the dead letters.
    async fn bury(
        &mut self,
        flash: &Flash,
        pg: &PgPool,
        entry: &Entry,
        fields: &str,
        error: &str,
    ) -> Result<(), RoundError> {
        let reservation = entry.reservation.as_ref().ok().map(|reservation| reservation.id.as_str());
        let letter = DeadLetter { sku: &self.sku, entry: &entry.id, reservation, fields, error };
        flash.answered(db::flash_dead_letter::insert(pg, &letter)).await.map_err(CarryError::Away)?;
        // Once, however often its entry is met again before it can be removed.
        if self.buried.insert(entry.id.clone()) {
            metrics::flash_entry(FlashFate::Dead);
            let (sku, entry) = (&self.sku, &entry.id);
            tracing::error!(%sku, entry, error, "a reservation can't be stored: see flash_dead_letter");
        }
        Ok(())
    }
}

/// Counts an entry that is decided now, and tells the requests that wait for it.
fn tell(flash: &Flash, entry: &Entry, reservation: &Reservation, fate: Fate) {
    let decided = Decided { stored: fate.is_stored(), generation: reservation.generation };
    flash.waiters().tell(&reservation.id, decided);
    metrics::flash_entry(match fate {
        Fate::Stored => FlashFate::Stored,
        Fate::Rejected => FlashFate::Rejected,
        Fate::Repeated(_) => return,
    });
    if fate == Fate::Rejected {
        tracing::warn!(
            reservation = reservation.id,
            "a reservation was rejected: its units are gone, or its counter was replaced"
        );
    }
    let made = entry.id.split('-').next().and_then(|millis| millis.parse().ok()).map(Duration::from_millis);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics::flash_lag(now.saturating_sub(made.unwrap_or(now)));
}
