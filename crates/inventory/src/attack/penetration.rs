use super::{AttackError, Callers, goods::GOODS, ground::Ground, guarded::Way, item::Item};

/// How many ids each caller asks for. None exists.
const EACH: u32 = 5;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    ground.prepare(0).await?;
    ground.on.fill_filter().await?;
    ground.begin();
    let absent = (GOODS..GOODS + EACH * callers.get()).map(Item);
    ground.ask(absent, callers.get() / EACH, Way::SingleFlight).await;
    Ok(())
}
