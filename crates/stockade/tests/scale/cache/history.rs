//! Checks whether one register per key could have produced the reads and writes of several processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use sqlx::PgPool;

use super::record::{Log, Record, What};

/// How long a write may stay unseen whose announcement was lost with the data of the store. The relay makes up for it
/// within this time, also on a busy machine. In nanoseconds.
const SETTLES: u64 = 10_000_000_000;

/// All operations of a run, and the facts that are needed to judge them.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) records: Vec<Record>,
    /// The key and the version of each commit, as the database knows them.
    pub(super) committed: BTreeSet<(u8, u64)>,
    /// The periods in which the store lost its data without the processes noticing, or could not be told of writes.
    pub(super) losses: Vec<(u64, u64)>,
    /// Which process was cut off, stopped or killed, and the period. Of its writes that were under way, some processes
    /// may see a write before it is acknowledged, and others not.
    pub(super) disturbed: Vec<(u8, u64, u64)>,
}

/// From `since` on no process may read an older version.
#[derive(Clone, Copy, Debug)]
struct Bound {
    since: u64,
    by: Record,
}

/// The known facts of a write.
#[derive(Clone, Copy, Debug)]
struct Write {
    process: u8,
    begin: u64,
    /// When it was acknowledged.
    end: Option<u64>,
}

impl History {
    /// Reads the commits from the database, and the logs of the processes.
    pub(super) async fn read(&mut self, pool: &PgPool, logs: &[PathBuf]) {
        let committed: Vec<(i16, i64)> =
            sqlx::query_as("select key, version from written").fetch_all(pool).await.unwrap();
        let number = |(key, version): (i16, i64)| (key.try_into().unwrap(), version.try_into().unwrap());
        self.committed = committed.into_iter().map(number).collect();
        self.records = (0..).zip(logs).flat_map(|(process, log)| Log::read(log, process)).collect();
    }

    /// How many records are of this kind.
    pub(super) fn count(&self, what: What) -> usize {
        self.records.iter().filter(|record| record.what == what).count()
    }

    /// All records that break the rules. Versions of a key rise with each commit, and begin with zero.
    pub(super) fn wrongs(&self) -> Vec<String> {
        let mut by_key: BTreeMap<u8, Vec<Record>> = BTreeMap::new();
        for record in &self.records {
            by_key.entry(record.key).or_default().push(*record);
        }
        by_key.into_values().flat_map(|records| self.wrongs_of(&records)).collect()
    }

    fn wrongs_of(&self, records: &[Record]) -> Vec<String> {
        let (mut writes, mut wrongs) = (BTreeMap::new(), Vec::new());
        for Record { what, process, begin, end, version, .. } in records.iter().copied() {
            let write = writes.entry(version);
            match what {
                What::Committing => drop(write.or_insert(Write { process, begin, end: None })),
                What::Acknowledged => write.or_insert(Write { process, begin, end: None }).end = Some(end),
                What::Hit | What::Load | What::Local | What::Database => {}
            }
        }
        let mut bounds = Vec::new();
        for record in records {
            let is_committed = record.version == 0 || self.committed.contains(&(record.key, record.version));
            if record.what != What::Committing && !is_committed {
                wrongs.push(format!("never committed: {record:?}"));
                continue;
            }
            let write = writes.get(&record.version);
            if record.what.is_read() && write.is_some_and(|write| write.begin > record.end) {
                wrongs.push(format!("read before it was written: {record:?}"));
            }
            if record.what != What::Committing {
                let unsettled = write.map_or(0, |write| self.unsettled_until(*write, record.what));
                let since = record.end.max(unsettled);
                bounds.push(Bound { since, by: *record });
            }
        }
        wrongs.extend(older_than_allowed(records, bounds));
        wrongs
    }

    /// Until when a write may be unseen although `by` had it. Zero unless the store lost the announcement while the
    /// write was under way, or the process was disturbed before the write was acknowledged.
    fn unsettled_until(&self, write: Write, by: What) -> u64 {
        let over = write.end.unwrap_or(write.begin + SETTLES);
        let met = |first: u64, last: u64| first <= over && write.begin <= last;
        let lost = self.losses.iter().filter(|(first, last)| met(*first, *last)).map(|(_, last)| *last);
        let disturbed = self
            .disturbed
            .iter()
            .filter(|(process, first, last)| by.is_read() && *process == write.process && met(*first, *last));
        lost.chain(disturbed.map(|(_, _, last)| *last)).max().map_or(0, |last| last + SETTLES)
    }
}

/// Reads that began after a newer version was known, from an acknowledged write or another read.
fn older_than_allowed(records: &[Record], mut bounds: Vec<Bound>) -> Vec<String> {
    let mut reads: Vec<_> = records.iter().filter(|record| record.what.is_read()).collect();
    reads.sort_unstable_by_key(|read| read.begin);
    bounds.sort_unstable_by_key(|bound| bound.since);
    let (mut wrongs, mut bounds, mut least) = (Vec::new(), bounds.into_iter().peekable(), None::<Record>);
    for read in reads {
        while let Some(Bound { by, .. }) = bounds.next_if(|bound| bound.since < read.begin) {
            least = least.filter(|least| least.version >= by.version).or(Some(by));
        }
        if let Some(least) = least.filter(|least| read.version < least.version) {
            wrongs.push(format!("{read:?} began after {least:?}"));
        }
    }
    wrongs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: What, begin: u64, end: u64, version: u64) -> Record {
        Record { what, process: 0, key: 1, begin, end, version }
    }

    fn wrongs(records: &[Record], losses: &[(u64, u64)]) -> usize {
        let committed = BTreeSet::from([(1, 10), (1, 20)]);
        History { records: records.to_vec(), committed, losses: losses.to_vec(), disturbed: Vec::new() }.wrongs().len()
    }

    #[test]
    fn what_one_register_can_do_is_right() {
        let written = [
            record(What::Committing, 5, 6, 10),
            record(What::Acknowledged, 5, 9, 10),
            record(What::Committing, 30, 31, 20),
            record(What::Acknowledged, 30, 40, 20),
        ];
        for (begin, end, version) in
            [(1, 2, 0), (1, 20, 10), (4, 8, 0), (8, 9, 0), (10, 11, 10), (35, 50, 10), (35, 50, 20)]
        {
            let read = record(What::Hit, begin, end, version);
            assert_eq!(wrongs(&[&written[..], &[read]].concat(), &[]), 0, "{read:?}");
        }
    }

    #[test]
    fn each_thing_that_no_register_does_is_found() {
        let write = [record(What::Committing, 5, 6, 10), record(What::Acknowledged, 5, 9, 10)];
        let with = |reads: &[Record]| wrongs(&[&write[..], reads].concat(), &[]);
        assert_eq!(with(&[record(What::Hit, 10, 11, 0)]), 1, "older than a write that was acknowledged");
        assert_eq!(with(&[record(What::Load, 10, 11, 15)]), 1, "never committed");
        assert_eq!(with(&[record(What::Load, 1, 4, 10)]), 1, "before it was written");
        let back = [record(What::Database, 6, 7, 10), record(What::Hit, 8, 10, 0)];
        assert_eq!(with(&back), 1, "older than what was read before");
        assert_eq!(wrongs(&[record(What::Acknowledged, 5, 9, 15)], &[]), 1, "acknowledged and not there");
    }

    #[test]
    fn a_write_whose_acknowledgement_is_missing_may_have_happened_or_not() {
        let write = record(What::Committing, 5, 6, 10);
        for version in [0, 10] {
            assert_eq!(wrongs(&[write, record(What::Hit, 10, 11, version)], &[]), 0);
        }
        let back = [write, record(What::Hit, 10, 11, 10), record(What::Hit, 12, 13, 0)];
        assert_eq!(wrongs(&back, &[]), 1, "once seen it has happened");
    }

    #[test]
    fn a_loss_excuses_the_writes_under_way_only_and_not_for_ever() {
        let write = [record(What::Committing, 5, 6, 10), record(What::Acknowledged, 5, 9, 10)];
        let old = |begin: u64| [&write[..], &[record(What::Hit, begin, begin + 1, 0)]].concat();
        assert_eq!(wrongs(&old(10), &[(7, 7)]), 0);
        assert_eq!(wrongs(&old(10), &[(3, 3)]), 1);
        assert_eq!(wrongs(&old(11), &[(10, 10)]), 1);
        assert_eq!(wrongs(&old(8 + SETTLES), &[(7, 7)]), 1);
    }

    #[test]
    fn a_writer_that_was_disturbed_excuses_who_saw_its_write_early_until_it_is_acknowledged() {
        let write = [record(What::Committing, 5, 6, 10), record(What::Local, 6, 7, 10)];
        let old = record(What::Local, 8, 9, 0);
        let with = |process, more: &[Record]| {
            let (records, committed) = ([&write[..], &[old], more].concat(), BTreeSet::from([(1, 10)]));
            History { records, committed, losses: Vec::new(), disturbed: vec![(process, 5, 7)] }.wrongs().len()
        };
        assert_eq!(with(0, &[]), 0);
        assert_eq!(with(1, &[]), 1, "another process was disturbed");
        let acknowledged = record(What::Acknowledged, 5, 10, 10);
        assert_eq!(with(0, &[acknowledged, record(What::Local, 11, 12, 0)]), 1, "acknowledged");
    }
}
