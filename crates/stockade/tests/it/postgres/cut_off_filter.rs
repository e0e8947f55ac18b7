//! The filter of existing ids at an old primary that does not know that another server took its place, and at the new
//! one.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use stockade::{
    Cache,
    cache::{Bloom, Source},
    postgres::CommitError,
};
use stockade_testbed::SentinelGroup;
use tokio::time::Instant;

use super::{
    Sku,
    bloom::{create, filter},
    cached::{World, online},
    cut_off::{LAG, Pair, replication},
    until,
};
use crate::{redis_traffic::calls, world::patient};

/// A filter that accepts ids. It may not be complete yet.
async fn open(world: &World, url: &str) -> Bloom {
    let bloom = filter(&patient(url).await, &world.pool, &Arc::new(AtomicUsize::new(0)));
    until(async || bloom.add(&[Sku("other")]).await.is_ok()).await;
    bloom
}

/// Shuts down the filters, and then the world by [`World::end_behind`].
async fn end<const N: usize>(world: World, filters: [Bloom; N], way: impl Send) {
    for filter in filters {
        filter.shutdown(Duration::from_secs(5)).await;
    }
    world.end_behind(way).await;
}

async fn source(cache: &Cache<Sku, i32>, id: &'static str) -> Source {
    cache.get(&Sku(id)).await.unwrap().info.source
}

#[tokio::test]
async fn a_filter_at_an_old_primary_hides_a_row_for_a_bounded_time() {
    // The lag, two seconds in which the server notices it, and three for a busy machine.
    const BOUND: Duration = Duration::from_secs(3 + 2 + 3);
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let left = open(&world, &pair.old.url()).await;
    let reader = online(world.at(&pair.old.url()).await.strict(&world.pool).bloom(&left)).await;
    until(async || left.stats().ready).await;
    assert_eq!(source(&reader, "new").await, Source::Filter);

    pair.divide().await;
    let cut = Instant::now();
    let known = open(&world, &pair.new.url()).await;
    let writer = online(world.at(&pair.new.url()).await.strict(&world.pool)).await;
    let mut tx = create(&world.pool, "new").await;
    tx.add(&known, &Sku("new"));
    tx.invalidate(&writer, &Sku("new"));
    tx.commit().await.unwrap();
    until(async || source(&reader, "new").await == Source::Load).await;
    assert!(cut.elapsed() < BOUND, "hidden for {:?}", cut.elapsed());
    for _ in 0..3 {
        let lookup = reader.get(&Sku("new")).await.unwrap();
        assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&5), Source::Load));
    }
    end(world, [left, known], pair).await;
}

#[tokio::test]
async fn an_id_that_was_added_at_an_old_primary_is_in_the_filter_of_the_new_one() {
    let world = World::patient().await;
    let pair = Pair::start(Duration::from_secs(10)).await;
    let left = open(&world, &pair.old.url()).await;

    pair.divide().await;
    pair.new.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let known = open(&world, &pair.new.url()).await;
    // If the filter may be built at once, it is built before its process looks at it for the third time. Each look sets
    // three expiries.
    until(async || known.stats().ready || calls(&pair.new).await.get("pexpire").is_some_and(|calls| *calls >= 9)).await;
    let mut tx = create(&world.pool, "new").await;
    tx.add(&left, &Sku("new"));
    tx.commit().await.unwrap();

    until(async || known.stats().ready).await;
    assert!(known.may_hold(&Sku("new")).await, "an id that exists is answered as absent");
    let cache = online(world.at(&pair.new.url()).await.bloom(&known)).await;
    assert_eq!(cache.get(&Sku("new")).await.unwrap().value.as_deref(), Some(&5));
    assert_eq!(source(&cache, "none").await, Source::Filter);
    end(world, [left, known], pair).await;
}

#[tokio::test]
async fn an_old_primary_takes_no_id_for_a_filter_that_it_does_not_have() {
    let world = World::patient().await;
    let pair = Pair::start(LAG).await;
    let left = open(&world, &pair.old.url()).await;
    assert!(!left.stats().ready, "there is a filter to add to");
    pair.divide().await;
    until(async || replication(&pair.old).await.contains("min_slaves_good_slaves:0")).await;
    let mut tx = create(&world.pool, "new").await;
    tx.add(&left, &Sku("new"));
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Announce(_)), "{refused:?}");
    end(world, [left], pair).await;
}

#[tokio::test]
async fn a_strict_cache_takes_absence_only_from_primaries_that_stop_writing() {
    let world = World::patient().await;
    let group = SentinelGroup::start().await.unwrap();
    let primary = group.primary().await.unwrap();
    let replicas = async |count: &str| {
        primary.command(&["CONFIG", "SET", "min-replicas-to-write", count]).await.unwrap();
    };
    replicas("1").await;
    let known = open(&world, &group.url()).await;
    let cache = online(world.at(&group.url()).await.strict(&world.pool).bloom(&known)).await;
    until(async || known.stats().ready).await;
    assert_eq!(source(&cache, "none").await, Source::Filter);
    replicas("0").await;
    until(async || source(&cache, "none").await == Source::Load).await;
    assert!(!known.may_hold(&Sku("never")).await, "those who want no bound are told nothing");
    end(world, [known], group).await;
}
