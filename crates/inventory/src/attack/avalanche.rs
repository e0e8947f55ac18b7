use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::{AttackError, Callers, goods::GOODS, ground::Ground, guarded::Way, item::Item};

const LOAD_MS: u64 = 5;

/// How long the readers read.
const TIME: Duration = Duration::from_secs(8);

/// Readers at a time: the callers divided by this.
const PART: u32 = 8;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(LOAD_MS).await?;
    tokio::try_join!(ground.on.warm(GOODS, Way::SingleFlight), ground.off.warm(GOODS))?;
    ground.begin();
    let end = Instant::now() + TIME;
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    let items = std::iter::from_fn(move || (Instant::now() < end).then(|| Item(rng.random_range(0..GOODS))));
    ground.ask(items, callers.get() / PART, Way::SingleFlight).await;
    Ok(())
}
