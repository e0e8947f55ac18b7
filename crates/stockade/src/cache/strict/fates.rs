use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{intent::Intent, sweep::Sweep};
use crate::{cache::LoadError, clock::Instant};

/// How often one process asks about one intent.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Tells for each transaction id whether the transaction is over, committed or rolled back.
pub(crate) type Fates = Arc<dyn Fn(Vec<Arc<str>>) -> BoxFuture<'static, Result<Vec<bool>, LoadError>> + Send + Sync>;

/// Tells whether a relay runs for the cache of this name, in any process.
pub(crate) type Relayed = Arc<dyn Fn(&'static str) -> BoxFuture<'static, Result<bool, LoadError>> + Send + Sync>;

/// What a strict cache needs in addition: how it asks whether the transaction of an intent is over, and whether a relay
/// runs.
#[derive(Clone)]
pub(crate) struct Strict {
    fates: Fates,
    pub(crate) relayed: Relayed,
    asked: Arc<Mutex<HashMap<Arc<str>, Instant>>>,
    pub(crate) sweep: Arc<Sweep>,
}

impl Strict {
    pub(crate) fn new(fates: Fates, relayed: Relayed) -> Self {
        Self { fates, relayed, asked: Arc::default(), sweep: Arc::default() }
    }

    /// Those of `intents` that this process did not ask about within the last second.
    pub(crate) fn due(&self, intents: Vec<Intent>) -> Vec<Intent> {
        let mut asked = self.asked.lock();
        asked.retain(|_, at| at.elapsed() < ASK_EVERY);
        let now = Instant::now();
        intents.into_iter().filter(|intent| asked.insert(Arc::clone(&intent.id), now).is_none()).collect()
    }

    /// Those of `intents` whose transaction is over.
    pub(crate) async fn over(&self, intents: Vec<Intent>) -> Result<Vec<Intent>, LoadError> {
        // A transaction has an intent for each of its keys: ask once for all of them.
        let xids: BTreeSet<_> = intents.iter().map(|intent| Arc::clone(&intent.xid)).collect();
        let fates = (self.fates)(xids.iter().map(Arc::clone).collect()).await?;
        let over: BTreeSet<_> = xids.into_iter().zip(fates).filter_map(|(xid, over)| over.then_some(xid)).collect();
        Ok(intents.into_iter().filter(|intent| over.contains(&intent.xid)).collect())
    }
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Strict")
    }
}
