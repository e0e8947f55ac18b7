use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::{Instant, sleep};

use super::{AttackError, Callers, ground::Ground, guarded::Way, item::Item, naive};

const LOAD_MS: u64 = 500;

/// How many items the callers ask for.
const ITEMS: u32 = 50;

/// How long the readers read.
const TIME: Duration = Duration::from_secs(5);

/// Readers at a time: the callers divided by this.
const PART: u32 = 20;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(LOAD_MS).await?;
    tokio::try_join!(ground.on.warm(ITEMS, Way::StaleWhileRevalidate), ground.off.warm(ITEMS))?;
    // All values have expired on both sides by then.
    sleep(naive::TTL).await;
    ground.begin();
    let end = Instant::now() + TIME;
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    let items = std::iter::from_fn(move || (Instant::now() < end).then(|| Item(rng.random_range(0..ITEMS))));
    ground.ask(items, (callers.get() / PART).max(1), Way::StaleWhileRevalidate).await;
    Ok(())
}
