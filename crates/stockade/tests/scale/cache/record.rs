use std::{fs::File, io::Write, path::Path};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock that all processes of a machine share.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// The reads and writes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A read of the cache that was a hit in Redis.
    Hit,
    /// A read of the cache that was answered by a load.
    Load,
    /// A read of the cache that was answered from memory, under a delegation.
    Local,
    /// A read past the cache.
    Database,
    /// A write is about to commit.
    Committing,
    /// A write was acknowledged.
    Acknowledged,
}

impl What {
    const ALL: [Self; 6] = [Self::Hit, Self::Load, Self::Local, Self::Database, Self::Committing, Self::Acknowledged];

    pub(super) fn is_read(self) -> bool {
        !matches!(self, Self::Committing | Self::Acknowledged)
    }
}

/// One operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) what: What,
    /// The number of the process, in the order in which the processes were started.
    pub(super) process: u8,
    pub(super) key: u8,
    /// When the operation was called. For a write that is about to commit, when its transaction began.
    pub(super) begin: u64,
    /// When the operation returned.
    pub(super) end: u64,
    /// The version that was read or written.
    pub(super) version: u64,
}

/// The bytes of a record. They divide a page, so that a process that is killed leaves only whole records.
const LENGTH: usize = 32;

/// The file into which a process writes its operations when they end.
#[derive(Debug)]
pub(super) struct Log(File);

impl Log {
    pub(super) fn create(path: &Path) -> Self {
        Self(File::options().create_new(true).append(true).open(path).unwrap())
    }

    /// How many records a log of another process has so far.
    pub(super) fn count(path: &Path) -> usize {
        std::fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap() / LENGTH)
    }

    /// Notes an operation that ends now.
    pub(super) fn note(&self, what: What, key: u8, begin: u64, version: i64) {
        let (end, version) = (now(), u64::try_from(version).unwrap());
        let mut bytes = [0; LENGTH];
        bytes[0] = What::ALL.iter().position(|other| *other == what).unwrap().try_into().unwrap();
        bytes[1] = key;
        for (place, number) in bytes[8..].chunks_exact_mut(8).zip([begin, end, version]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        (&self.0).write_all(&bytes).unwrap();
    }

    /// All records of this process, until it ended or was killed.
    pub(super) fn read(path: &Path, process: u8) -> Vec<Record> {
        // A process that was killed at once has no log.
        let bytes = std::fs::read(path).unwrap_or_default();
        let record = |bytes: &[u8]| {
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let what = What::ALL[usize::from(bytes[0])];
            Record { what, process, key: bytes[1], begin: number(8), end: number(16), version: number(24) }
        };
        bytes.chunks_exact(LENGTH).map(record).collect()
    }
}
