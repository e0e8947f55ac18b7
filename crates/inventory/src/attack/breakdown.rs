use std::iter;

use tokio::time::sleep;

use super::{
    AttackError, Callers,
    ground::Ground,
    guarded::{self, Way},
    item::Item,
};

const LOAD_MS: u64 = 20;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(LOAD_MS).await?;
    let _ = tokio::join!(ground.on.get(Item(0), Way::SingleFlight), ground.off.get(Item(0)));
    // The value has expired on both sides by then.
    sleep(*guarded::TTL.end()).await;
    ground.begin();
    ground.ask(iter::repeat_n(Item(0), callers.get() as usize), callers.get(), Way::SingleFlight).await;
    Ok(())
}
