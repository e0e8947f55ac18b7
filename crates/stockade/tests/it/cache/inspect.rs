//! `Cache::inspect` of a key.

use std::{sync::Arc, time::Duration};

use stockade::cache::{Inspection, Kept, Loaded, Tier};

use super::support::{Database, Loading, Sku, Stocks, crowd, ended, eventually, get, hasty, patient, sku};
use crate::world::{World, online};

async fn look(stocks: &Stocks, id: &str) -> Inspection {
    stocks.inspect(&sku(id)).await.unwrap()
}

fn kept(tier: Tier) -> Kept {
    let Tier::Kept(kept) = tier else { panic!("{tier:?}") };
    kept
}

fn kept_absent(tier: Tier) -> bool {
    matches!(tier, Tier::Kept(kept) if kept.absent)
}

/// A process whose values have a version and a tag. With `local` it also keeps values in its memory.
async fn tagging(server: &World, local: bool, database: &Arc<Database>) -> Stocks {
    let database = Arc::clone(database);
    let loader = move |sku: Sku| {
        let database = Arc::clone(&database);
        async move { Ok::<_, std::io::Error>(Loaded::new(database.query(&sku.0).await?).version(7).tags(["red"])) }
    };
    let builder = patient(&server.url()).await;
    let builder = if local { builder.local(1 << 20) } else { builder };
    online(builder.loader(loader)).await
}

#[tokio::test]
async fn an_inspection_says_where_a_value_is_and_who_loads_it_and_loads_nothing() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let one = tagging(&server, true, &database).await;
    let two = tagging(&server, false, &database).await;
    for stocks in [&one, &two] {
        let nothing = look(stocks, "a").await;
        assert_eq!((&nothing.local, &nothing.redis), (&Tier::Empty, &Tier::Empty));
        assert_eq!((nothing.fetching, nothing.lease), (false, None));
    }

    let gate = database.shut();
    let mut reads = crowd(&one, "a");
    database.queried().await;
    for (stocks, is_here) in [(&one, true), (&two, false)] {
        let loading = look(stocks, "a").await;
        assert_eq!((loading.fetching, loading.redis), (is_here, Tier::Empty));
        let left = loading.lease.expect("the lease is seen by every process");
        assert!(!left.is_zero() && left <= Duration::from_secs(120), "{left:?}");
    }
    gate.add_permits(1);
    ended(&mut reads).await;
    eventually("the load has ended", || async { !look(&one, "a").await.fetching }).await;
    let loaded = look(&one, "a").await;
    assert_eq!(loaded.lease, None);
    for kept in [kept(loaded.local), kept(loaded.redis)] {
        assert_eq!(
            (kept.absent, kept.stale, kept.version, &kept.tags[..]),
            (false, None, Some(7), &["red".to_owned()][..])
        );
        assert!(
            !kept.ttl.is_zero() && kept.age < Duration::from_secs(60) && kept.took < kept.age + Duration::from_secs(60)
        );
    }
    let other = look(&two, "a").await;
    assert_eq!((&other.local, kept(other.redis.clone()).version), (&Tier::Empty, Some(7)));
    database.open();
    get(&two, "none").await;
    assert!(kept_absent(look(&one, "none").await.redis));

    let before = (database.loads(), one.stats().reads(), two.stats().reads());
    two.invalidate_tag("red").await.unwrap();
    eventually("news of it has come", || async { look(&one, "a").await.local == Tier::Empty }).await;
    assert_eq!(look(&two, "a").await.redis, Tier::Empty);
    assert_eq!((database.loads(), one.stats().reads(), two.stats().reads()), before, "an inspection is no read");
    assert!(one.inspect(&sku("")).await.is_err());
    let three = hasty(&server.url()).await.on(&database).await;
    get(&three, "other").await;
    server.pause().unwrap();
    eventually("Redis is away", || async { look(&three, "other").await.redis == Tier::Unavailable }).await;
    server.resume().unwrap();
    eventually("it is back", || async { kept_absent(look(&three, "other").await.redis) }).await;
    server.end().await;
}

#[tokio::test]
async fn a_load_without_a_limit_is_inspected_like_any_other() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let stocks = patient(&server.url()).await.load_timeout(Duration::MAX).on(&database).await;
    let gate = database.shut();
    let mut reads = crowd(&stocks, "a");
    eventually("it is being loaded", || async { database.loads() == 1 }).await;
    let seen = look(&stocks, "a").await;
    assert!(seen.fetching && seen.lease.is_some(), "{seen:?}");
    database.open();
    gate.add_permits(1);
    ended(&mut reads).await;
    server.end().await;
}
