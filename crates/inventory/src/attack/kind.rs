use clap::ValueEnum;
use serde::Serialize;

use super::{AttackError, Callers, ground::Ground, last_unit, reads, stopped};
#[cfg(feature = "demo")]
use super::{killed, outage};

/// An attack of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// A hot key expires while many ask for it.
    Breakdown,
    /// Callers ask for ids that do not exist.
    Penetration,
    /// All keys were written at once, and expire at once.
    Avalanche,
    /// Postgres takes half a second for each load.
    SlowPostgres,
    /// More buyers than units.
    LastUnit,
    /// Holders of a lock stand still beyond their lease.
    StoppedHolder,
    /// A process is killed while it holds a lock.
    KilledHolder,
    /// Redis stands still, with its connections open.
    FrozenRedis,
    /// Redis is killed, and comes back empty.
    RestartedRedis,
    /// Redis loses all its keys.
    FlushedRedis,
}

/// The description of an attack, which the page shows before a run.
#[derive(Debug, Serialize)]
pub(crate) struct Described {
    pub(crate) name: Attack,
    title: &'static str,
    does: &'static str,
    on: &'static str,
    off: &'static str,
    /// Whether the attack sells: then its figures have a stock.
    sells: bool,
    /// Whether its callers make Postgres load.
    loads: bool,
    /// The figure that the chart draws for both sides.
    chart: Drawn,
    /// The reason why this build can't run the attack.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'static str>,
}

/// The figure of the chart, per second.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Drawn {
    Loads,
    Answered,
}

const DEMO: &str = "this attack starts a Redis or a process of its own, as only a program with the feature `demo` does: \
                    run `make demo`";

impl Attack {
    /// All attacks, in the order of the page.
    pub(crate) fn all() -> impl Iterator<Item = Described> {
        Self::value_variants().iter().map(|attack| attack.described())
    }

    fn described(self) -> Described {
        let (title, [does, on, off]) = (self.title(), self.texts());
        let sells = matches!(self, Self::LastUnit | Self::StoppedHolder);
        let loads = !sells && self != Self::KilledHolder;
        let chart = if !loads || self == Self::FrozenRedis { Drawn::Answered } else { Drawn::Loads };
        Described { name: self, title, does, on, off, sells, loads, chart, missing: self.missing() }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Breakdown => "Breakdown",
            Self::Penetration => "Penetration",
            Self::Avalanche => "Avalanche",
            Self::SlowPostgres => "Slow Postgres",
            Self::LastUnit => "The last unit",
            Self::StoppedHolder => "Stopped holder",
            Self::KilledHolder => "Killed holder",
            Self::FrozenRedis => "Redis frozen",
            Self::RestartedRedis => "Redis killed",
            Self::FlushedRedis => "FLUSHALL",
        }
    }

    /// What it does, and what each side does about it.
    fn texts(self) -> [&'static str; 3] {
        match self {
            Self::Breakdown => [
                "A hot key expires, and 2,000 callers ask for it at the same moment. A load takes 20 ms.",
                "Single flight: one load answers all that wait, in every instance.",
                "GET, and where it finds nothing SELECT and SET: each caller loads for itself.",
            ],
            Self::Penetration => [
                "10,000 ids are asked for that do not exist.",
                "A Bloom filter of the ids that exist answers before Postgres is asked; absences are remembered.",
                "What is not in the cache is asked of Postgres, each time.",
            ],
            Self::Avalanche => [
                "1,000 keys were written at the same moment. 250 readers ask for them at random for 8 s, in which they \
                 expire. A load takes 5 ms.",
                "Each value lives for a random time of 2 to 6 s and is loaded once, and the loads are limited.",
                "Every value lives for 4 s.",
            ],
            Self::SlowPostgres => [
                "Every load takes 500 ms. 100 readers ask for 50 items at random for 5 s; all have expired.",
                "Stale while revalidate: an expired value is served, and one load brings the new one.",
                "Each reader waits for a load of its own.",
            ],
            Self::LastUnit => [
                "300 buyers want one unit each, of 100.",
                "A lock of the item, and a transaction under its fence.",
                "Read, then write, without a lock: the scheme \"no lock\" of the lab.",
            ],
            Self::StoppedHolder => [
                "Ten holders of a lock are stopped between read and write, until a successor has sold.",
                "The fence: Postgres has the claim of the successor by then, and refuses the one of the stopped holder.",
                "The same lock without the fence: a holder that goes on writes what it read before.",
            ],
            Self::KilledHolder => [
                "A process of the service is killed (SIGKILL) while it holds a lock for which 20 wait, each for 3 s at most.",
                "A lease of 1 s, which only a holder that lives renews, and a queue.",
                "SETNX and DEL: a key that stays until its holder deletes it.",
            ],
            Self::FrozenRedis => [
                "Redis stands still for 5 s (SIGSTOP) with its connections open. 100 reads a second go on.",
                "A command has 250 ms. Then values come from the memory of the process, or from Postgres.",
                "Commands have no time limit.",
            ],
            Self::RestartedRedis => [
                "Redis is killed and starts again, empty, after 1 s. 500 reads a second ask for 20 keys.",
                "Meanwhile values come from memory. Afterwards each key is loaded once.",
                "An error of Redis is an error of the read. Afterwards each caller loads for itself.",
            ],
            Self::FlushedRedis => [
                "Somebody sends FLUSHALL while 1,000 reads a second ask for 20 keys. A load takes 20 ms.",
                "Single flight: each key is loaded once.",
                "Each caller that finds nothing loads for itself.",
            ],
        }
    }

    /// The reason why this build can't run the attack; `None` if it can.
    pub(super) fn missing(self) -> Option<&'static str> {
        let needs = self.has_own_redis() || self == Self::KilledHolder;
        (needs && cfg!(not(feature = "demo"))).then_some(DEMO)
    }

    /// Whether the attack starts a Redis of its own in order to harm it.
    pub(super) fn has_own_redis(self) -> bool {
        matches!(self, Self::FrozenRedis | Self::RestartedRedis | Self::FlushedRedis)
    }

    /// Runs both sides to their end.
    pub(super) async fn run(self, ground: &Ground, callers: Callers) -> Result<(), AttackError> {
        match self {
            Self::Breakdown => reads::breakdown(ground, callers).await,
            Self::Penetration => reads::penetration(ground, callers).await,
            Self::Avalanche => reads::avalanche(ground, callers).await,
            Self::SlowPostgres => reads::slow_postgres(ground, callers).await,
            Self::LastUnit => Box::pin(last_unit::run(ground, callers)).await,
            Self::StoppedHolder => stopped::run(ground).await,
            #[cfg(feature = "demo")]
            Self::KilledHolder => killed::run(ground).await,
            #[cfg(feature = "demo")]
            Self::FrozenRedis => outage::frozen(ground, callers).await,
            #[cfg(feature = "demo")]
            Self::RestartedRedis => outage::restarted(ground, callers).await,
            #[cfg(feature = "demo")]
            Self::FlushedRedis => outage::flushed(ground, callers).await,
            #[cfg(not(feature = "demo"))]
            Self::KilledHolder | Self::FrozenRedis | Self::RestartedRedis | Self::FlushedRedis => {
                Err(AttackError::Elsewhere(DEMO))
            }
        }
    }
}
