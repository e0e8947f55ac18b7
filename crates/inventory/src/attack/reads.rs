//! The attacks by callers that read.

use std::{iter, time::Duration};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::{Instant, sleep};

use super::{
    AttackError, Callers,
    goods::GOODS,
    ground::Ground,
    guarded::{self, Way},
    item::Item,
    naive,
};

/// A hot key expires while many ask for it.
pub(super) async fn breakdown(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(20).await?;
    let _ = tokio::join!(ground.on.get(Item(0), Way::SingleFlight), ground.off.get(Item(0)));
    // The value has expired on both sides by then.
    sleep(*guarded::TTL.end()).await;
    ground.begin();
    ground.ask(iter::repeat_n(Item(0), callers.get() as usize), callers.get(), Way::SingleFlight).await;
    Ok(())
}

/// Each caller asks for five ids that do not exist.
pub(super) async fn penetration(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    const EACH: u32 = 5;
    ground.prepare(0).await?;
    ground.on.fill_filter().await?;
    ground.begin();
    let absent = (GOODS..GOODS + EACH * callers.get()).map(Item);
    ground.ask(absent, callers.get() / EACH, Way::SingleFlight).await;
    Ok(())
}

/// All keys expire at once.
pub(super) async fn avalanche(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(5).await?;
    tokio::try_join!(ground.on.warm(GOODS, Way::SingleFlight), ground.off.warm(GOODS))?;
    ground.begin();
    ground.ask(at_random(GOODS, Duration::from_secs(8)), callers.get() / 8, Way::SingleFlight).await;
    Ok(())
}

/// Each load takes half a second.
pub(super) async fn slow_postgres(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    const ITEMS: u32 = 50;
    let way = Way::StaleWhileRevalidate;
    ground.prepare(500).await?;
    tokio::try_join!(ground.on.warm(ITEMS, way), ground.off.warm(ITEMS))?;
    // All values have expired on both sides by then.
    sleep(naive::TTL).await;
    ground.begin();
    ground.ask(at_random(ITEMS, Duration::from_secs(5)), (callers.get() / 20).max(1), way).await;
    Ok(())
}

/// Items below `items`, for so long.
fn at_random(items: u32, time: Duration) -> impl Iterator<Item = Item> + Clone + Send {
    let end = Instant::now() + time;
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    iter::from_fn(move || (Instant::now() < end).then(|| Item(rng.random_range(0..items))))
}
