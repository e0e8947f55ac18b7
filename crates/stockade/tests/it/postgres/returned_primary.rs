//! A strict cache on a primary that followed its successor for a while and is the primary again.

use stockade::{cache::Source, postgres::Tx};

use super::{
    Sku,
    cached::{World, has, online, read},
    cut_off::vouched_by_hand,
    until,
};
use crate::cache::returned_primary::Pair;

#[tokio::test]
async fn a_write_that_a_returned_primary_lost_is_not_read_from_before_it() {
    let (world, pair) = (World::patient().await, Pair::start().await);
    let cache = online(world.at(&pair.url()).await.strict(&world.pool)).await;
    vouched_by_hand(&pair.first, &cache).await;
    assert_eq!(read(&cache).await, 10);
    let key = pair.first.command(&["KEYS", "*}e:stock:stock:a"]).await.unwrap();

    pair.part().await;
    world.write(&cache, 9).await.commit().await.unwrap();
    assert!(!has(&pair.first, &key, "v").await, "the write did not reach the first server");
    pair.change_places_twice().await;
    // A commit that is announced shows that the cache is connected again. This one leaves the value of `a` alone.
    until(async || {
        let mut tx = Tx::unfenced(&world.pool).await.unwrap();
        sqlx::query("update stock set quantity = 9 where sku = 'a'").execute(&mut *tx).await.unwrap();
        tx.invalidate(&cache, &Sku("b"));
        tx.commit().await.is_ok()
    })
    .await;
    until(async || !cache.is_degraded()).await;
    assert!(has(&pair.first, &key, "v").await, "the old value did not come back");
    for _ in 0..3 {
        let lookup = cache.get(&Sku("a")).await.unwrap();
        assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&9), Source::Load));
    }
    world.end_behind(pair).await;
}
