use std::{borrow::Cow, convert::Infallible, fmt, time::Duration};

use stockade::{Cache, Locks, Redis, Resource, cache::Source};
use tokio::time::{sleep, timeout};

use crate::{Failure, service::Service};

/// Far beyond what a command takes under a tool that makes it fifty times slower.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at the connections.
const PAUSE: Duration = Duration::from_millis(2);

/// The operations that a program does most often.
#[derive(Clone, Copy)]
pub(crate) enum Path {
    WriteLock,
    ReadLock,
    DelegatedRead,
    RedisHit,
    MemoryHit,
    /// A fixed answer within the layers of the service: what a request costs before its handler does anything.
    FixedAnswer,
    /// `GET /stock/{sku}` of the service, under a delegation and from memory.
    StockRead,
}

/// Everything that the paths need, connected and warm.
pub(crate) struct Paths {
    locks: Locks,
    remote: Cache<Item, String>,
    local: Cache<Item, String>,
    item: Item,
    /// No other path uses this item: a lock without delegation would end the delegation.
    delegated: Item,
    service: Service,
}

#[derive(Clone)]
pub(crate) struct Item(String);

impl Item {
    pub(crate) fn new(number: u32) -> Self {
        Self(number.to_string())
    }
}

impl Resource for Item {
    const KIND: &'static str = "item";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl Path {
    pub(crate) const ALL: [Self; 7] = [
        Self::WriteLock,
        Self::ReadLock,
        Self::DelegatedRead,
        Self::RedisHit,
        Self::MemoryHit,
        Self::FixedAnswer,
        Self::StockRead,
    ];

    /// How often the path runs to count its instructions: often enough to hide what its thread does once.
    pub(crate) fn times(self) -> u32 {
        match self {
            Self::DelegatedRead | Self::MemoryHit => 5_000,
            Self::FixedAnswer | Self::StockRead => 1_000,
            Self::WriteLock | Self::ReadLock | Self::RedisHit => 200,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteLock => "write-lock",
            Self::ReadLock => "read-lock",
            Self::DelegatedRead => "delegated-read",
            Self::RedisHit => "redis-hit",
            Self::MemoryHit => "memory-hit",
            Self::FixedAnswer => "fixed-answer",
            Self::StockRead => "stock-read",
        })
    }
}

impl Paths {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let redis = Redis::builder(url).command_timeout(PATIENCE).connect().await?;
        let paths = Self {
            locks: Locks::builder().lease(PATIENCE * 4).redis(&redis),
            remote: cache(&redis, "remote", 0),
            local: cache(&redis, "local", 64 << 20),
            item: Item::new(0),
            delegated: Item::new(1),
            service: Service::new(&redis)?,
        };
        timeout(PATIENCE * 2, paths.warm()).await??;
        Ok(paths)
    }

    /// Waits until everything is connected, and every value is in its tier.
    async fn warm(&self) -> Result<(), Failure> {
        while self.locks.write(&self.item).try_acquire().await.is_err() {
            sleep(PAUSE).await;
        }
        while self.local.get(&self.item).await?.info.source != Source::Local {
            sleep(PAUSE).await;
        }
        while self.remote.get(&self.item).await?.info.source != Source::Redis {
            sleep(PAUSE).await;
        }
        self.service.warm().await
    }

    pub(crate) async fn run(&self, path: Path, times: u32) -> Result<(), Failure> {
        for _ in 0..times {
            self.once(path).await?;
        }
        Ok(())
    }

    async fn once(&self, path: Path) -> Result<(), Failure> {
        match path {
            Path::WriteLock => {
                self.locks.write(&self.item).acquire().await?.release().await?;
            }
            Path::ReadLock => {
                self.locks.read(&self.item).acquire().await?.release().await?;
            }
            Path::DelegatedRead => {
                self.locks.read(&self.delegated).delegate().acquire().await?.release().await?;
            }
            Path::RedisHit => drop(self.remote.get(&self.item).await?),
            Path::MemoryHit => drop(self.local.get(&self.item).await?),
            Path::FixedAnswer => self.service.fixed().await?,
            Path::StockRead => self.service.read().await?,
        }
        Ok(())
    }
}

/// A cache of values of 256 bytes, kept in the process up to `local` bytes.
pub(crate) fn cache(redis: &Redis, name: &'static str, local: u64) -> Cache<Item, String> {
    let load = |item: Item| async move { Ok::<_, Infallible>(Some(format!("{:0>256}", item.0))) };
    let builder = Cache::builder(redis).name(name);
    let builder = if local > 0 { builder.local(local) } else { builder };
    builder.loader(load).build()
}
