//! Making the invalidations that rows of the outbox name.

use std::collections::{BTreeMap, BTreeSet};

use super::{RelayError, outbox::Row};
use crate::{
    cache::{Fault, Invalidator, NotTaken, Tag, some_at_a_time},
    resource::{Key, Label},
};

/// The outcome of applying rows. A row in neither list waits for a store that does not answer.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Every cache of their name has taken them.
    pub(super) rows: Vec<i64>,
    /// A store that answers has refused them.
    pub(super) refused: BTreeSet<i64>,
    /// Why the last of them was refused.
    pub(super) refusal: Option<RelayError>,
    /// Why rows wait: a store does not answer, or refuses every row.
    pub(super) outage: Option<RelayError>,
}

/// Makes the invalidations of `rows` in these caches. Rows may be applied in any order and any number of times: that
/// only drops values, and each key of an intent has a row of its own.
pub(super) async fn apply(caches: &[Invalidator], rows: &[Row]) -> Applied {
    let (mut taken, mut left) = (BTreeSet::new(), BTreeSet::new());
    let mut applied = Applied::default();
    for cache in caches {
        let (outcomes, nameless) = tell(cache, rows).await;
        taken.extend(nameless);
        let answers = outcomes.iter().any(|(_, outcome)| outcome.is_ok());
        for (row, outcome) in outcomes {
            let Err(NotTaken { error, fault }) = outcome else {
                taken.insert(row);
                continue;
            };
            let failure = RelayError::Cache { cache: cache.name(), source: error };
            // If the store took other rows, this row is at fault, unless the store fell silent in between.
            if fault == Fault::Key || fault == Fault::Store && answers {
                applied.refused.insert(row);
                applied.refusal = Some(failure);
            } else {
                left.insert(row);
                applied.outage = Some(failure);
            }
        }
    }
    applied.refused.retain(|row| !left.contains(row));
    applied.rows = taken.into_iter().filter(|row| !left.contains(row) && !applied.refused.contains(row)).collect();
    applied
}

/// The outcome of each row of this cache, and the rows that name neither a key nor a tag.
async fn tell(cache: &Invalidator, rows: &[Row]) -> (Vec<(i64, Result<(), NotTaken>)>, Vec<i64>) {
    let mut by_intent: BTreeMap<Option<&str>, Stale> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.cache == cache.name()) {
        by_intent.entry(row.intent.as_deref()).or_default().add(cache.name(), row);
    }
    // Each intent takes a round trip. A strict cache has one for each commit, so they are not ended one by one.
    let told = some_at_a_time(by_intent.into_iter().map(|(intent, stale)| tell_of(cache, intent, stale))).await;
    let (mut outcomes, mut all_nameless) = (Vec::with_capacity(rows.len()), Vec::new());
    for (taken, nameless) in told {
        outcomes.extend(taken);
        all_nameless.extend(nameless);
    }
    (outcomes, all_nameless)
}

/// As [`tell`], for the rows of one intent or of none.
async fn tell_of(
    cache: &Invalidator,
    intent: Option<&str>,
    Stale { keys, tags, nameless }: Stale,
) -> (Vec<(i64, Result<(), NotTaken>)>, Vec<i64>) {
    let (key_rows, keys): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
    let (tag_rows, tags): (Vec<_>, Vec<_>) = tags.into_iter().unzip();
    let by_key = async {
        match intent {
            // The row is there, so its transaction has committed.
            Some(intent) => cache.0.end(&keys, intent).await.into_iter().map(|ended| ended.map(drop)).collect(),
            None => cache.0.invalidate(&keys).await,
        }
    };
    let (by_key, by_tag) = tokio::join!(by_key, cache.0.invalidate_tags(&tags));
    let outcomes = key_rows.into_iter().zip(by_key).chain(tag_rows.into_iter().zip(by_tag)).collect();
    (outcomes, nameless)
}

/// The keys and tags that rows name, each with the id of its row.
#[derive(Default)]
struct Stale {
    keys: Vec<(i64, Key)>,
    tags: Vec<(i64, Tag)>,
    /// Rows that name neither.
    nameless: Vec<i64>,
}

impl Stale {
    /// Keys and tags were checked when the row was written, so only a row that was tampered with names neither.
    fn add(&mut self, cache: &'static str, row: &Row) {
        let added = match row.resource.strip_prefix(Tag::MARK) {
            Some(tag) => Tag::unmarked(tag).map(|tag| self.tags.push((row.id, tag))).map_err(|error| error.to_string()),
            None => Key::encoded(Label::Borrowed(cache), row.resource.clone())
                .map(|key| self.keys.push((row.id, key)))
                .map_err(|error| error.to_string()),
        };
        if let Err(error) = added {
            tracing::error!(error, row = row.id, "an outbox row names neither a key nor a tag: it counts as applied");
            self.nameless.push(row.id);
        }
    }
}
