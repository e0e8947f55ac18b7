use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use stockade::lock::{LockEvent, LockEventKind};
use tokio::time::Instant;

use super::{Events, entry::Entry};
use crate::{
    fleet::Fleet,
    millis::{millis, now_ms},
};

/// How many grants are kept.
const GRANTS: usize = 500;

/// How many losses and forced releases are kept. They have a place of their own, so that grants do not push them out.
const LOSSES: usize = 100;

/// How many grants a second are kept.
const A_SECOND: u32 = 50;

/// How long grants are kept after somebody last asked for them.
const LISTENS: Duration = Duration::from_secs(15);

/// The last events of the locks of this instance. Cheap to clone.
///
/// Losses and forced releases are always kept. Grants are kept while somebody asks for them: otherwise a grant costs
/// one atomic read.
#[derive(Clone, Debug, Default)]
pub struct LockLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    listens: AtomicBool,
    /// Grants that came while another was being kept.
    jostled: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    grants: VecDeque<Entry>,
    losses: VecDeque<Entry>,
    /// The number of the newest entry.
    newest: u64,
    /// When somebody asked last.
    asked: Option<Instant>,
    /// Since when grants are kept without a gap: milliseconds since 1970.
    since_ms: u64,
    left_out: u64,
    second: Option<Instant>,
    in_second: u32,
}

impl LockLog {
    /// Takes note of an event. Never waits for a reader when the event is a grant.
    pub fn note(&self, event: &LockEvent<'_>) {
        let entry = |what| Entry::new(what, event.resource, Some(event.mode.as_str()), event.token.get());
        match event.kind {
            LockEventKind::Granted { waited, handed_off } => self.grant(|| Entry {
                waited_ms: Some(millis(waited)),
                ..entry(if handed_off.is_some() { "handed_over" } else { "granted" })
            }),
            LockEventKind::Lost(reason) => {
                self.0.kept.lock().loss(Entry { reason: Some(reason.as_str().into()), ..entry("lost") })
            }
            _ => {}
        }
    }

    /// Takes note that an administrator took a lock from its holders.
    pub(in crate::ops) fn forced(&self, resource: &str, holders: u64, token: u64) {
        let forced = Entry { holders: Some(holders), ..Entry::new("forced", resource, None, token) };
        self.0.kept.lock().loss(forced);
    }

    /// The events that are kept. For the next 15 s grants are kept too.
    pub(super) fn events(&self) -> Events {
        let jostled = self.0.jostled.swap(0, Ordering::Relaxed);
        let mut kept = self.0.kept.lock();
        if !self.0.listens.swap(true, Ordering::Relaxed) {
            (kept.since_ms, kept.left_out) = (now_ms(), 0);
        }
        kept.asked = Some(Instant::now());
        kept.left_out += jostled;
        let mut events: Vec<_> = kept.grants.iter().chain(&kept.losses).cloned().collect();
        events.sort_unstable_by_key(|entry| entry.id);
        Events { events, newest: kept.newest, since_ms: kept.since_ms, left_out: kept.left_out }
    }

    /// Writes the events for the other instances while somebody reads them there, until it is dropped.
    pub(crate) async fn publish(self, fleet: Fleet) {
        fleet.publish(|| serde_json::to_string(&self.events()).ok()).await;
    }

    fn grant(&self, entry: impl FnOnce() -> Entry) {
        if !self.0.listens.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut kept) = self.0.kept.try_lock() else {
            self.0.jostled.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let now = Instant::now();
        if kept.asked.is_none_or(|asked| now - asked > LISTENS) {
            self.0.listens.store(false, Ordering::Relaxed);
        } else if kept.has_room(now) {
            kept.grant(entry());
        } else {
            kept.left_out += 1;
        }
    }
}

impl Kept {
    /// Whether another grant of this second is kept.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|second| now - second >= Duration::from_secs(1)) {
            (self.second, self.in_second) = (Some(now), 0);
        }
        self.in_second += 1;
        self.in_second <= A_SECOND
    }

    fn grant(&mut self, entry: Entry) {
        let entry = self.numbered(entry);
        push(&mut self.grants, entry, GRANTS);
    }

    fn loss(&mut self, entry: Entry) {
        let entry = self.numbered(entry);
        push(&mut self.losses, entry, LOSSES);
    }

    fn numbered(&mut self, entry: Entry) -> Entry {
        self.newest += 1;
        Entry { id: self.newest, ..entry }
    }
}

fn push(entries: &mut VecDeque<Entry>, entry: Entry, most: usize) {
    if entries.len() == most {
        entries.pop_front();
    }
    entries.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(log: &LockLog, resource: &str) {
        log.grant(|| Entry::new("granted", resource, None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn grants_are_kept_only_while_somebody_asks_and_at_most_fifty_a_second() {
        let log = LockLog::default();
        grant(&log, "early");
        log.forced("early", 1, 1);
        let seen = log.events();
        assert_eq!((seen.events.len(), &*seen.events[0].what), (1, "forced"), "{seen:?}");
        for _ in 0..70 {
            grant(&log, "many");
        }
        let seen = log.events().after(seen.newest);
        assert_eq!((seen.events.len(), seen.left_out), (50, 20));
        tokio::time::advance(Duration::from_secs(1)).await;
        grant(&log, "next");
        let seen = log.events().after(seen.newest);
        assert_eq!((seen.events.len(), seen.left_out), (1, 20));
        tokio::time::advance(LISTENS * 2).await;
        grant(&log, "late");
        assert!(!log.0.listens.load(Ordering::Relaxed), "nobody asks any more");
        let seen = log.events().after(seen.newest);
        assert_eq!((seen.events.len(), seen.left_out), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_grants_push_no_loss_out() {
        let log = LockLog::default();
        log.events();
        log.forced("lost", 1, 1);
        for _ in 0..20 {
            for _ in 0..50 {
                grant(&log, "many");
            }
            log.events();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let seen = log.events();
        assert_eq!((seen.events.len(), &*seen.events[0].what, seen.newest), (GRANTS + 1, "forced", 1001));
        for _ in 0..LOSSES * 2 {
            log.forced("lost", 1, 1);
        }
        assert_eq!(log.events().events.len(), GRANTS + LOSSES);
    }
}
