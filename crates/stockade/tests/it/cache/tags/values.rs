//! Which values a tag drops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use stockade::{
    Cache,
    cache::{CacheError, Loaded, Source, TagError},
};
use tokio::time::Instant;

use super::support::{source, tagged};
use crate::{
    cache::support::{Database, Sku, Stock, eventually, get, patient, quantity, sku, stored},
    world::{World, online},
};

#[tokio::test]
async fn a_tag_drops_every_value_that_has_it_and_no_other() {
    let server = World::start().await;
    let database = Database::with(&[("ab", 0), ("bc", 0), ("c", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    for id in ["ab", "bc", "c", "none"] {
        get(&stocks, id).await;
        assert_eq!(source(&stocks, id).await, Source::Redis, "{id}");
    }
    for id in ["ab", "bc", "c", "none"] {
        database.write(id, Some(1));
    }
    writer.invalidate_tag("b").await.unwrap();
    assert_eq!(quantity(&get(&stocks, "ab").await), Some(1));
    assert_eq!(quantity(&get(&stocks, "bc").await), Some(1));
    assert_eq!((quantity(&get(&stocks, "c").await), source(&stocks, "none").await), (Some(0), Source::Redis));
    writer.invalidate_tag(&"n".to_owned()).await.unwrap();
    assert_eq!(quantity(&get(&stocks, "none").await), Some(1), "an absence has tags too");
    let loads = database.loads();
    for id in ["ab", "bc", "c", "none"] {
        assert_eq!(source(&stocks, id).await, Source::Redis, "{id}");
    }
    assert_eq!(database.loads(), loads);
    server.end().await;
}

#[tokio::test]
async fn an_expired_value_is_not_served_once_its_tag_was_invalidated() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_millis(20);
    let builder = patient(&server.url()).await.ttl(ttl..=ttl).stale_while_revalidate(Duration::from_secs(60));
    let stocks = tagged(builder, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    let gate = database.shut();
    eventually("it expires", || async { get(&stocks, "a").await.info.stale.is_some() }).await;
    // The load in the background has read the old row.
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    gate.add_permits(1);
    let found = get(&stocks, "a").await;
    assert_eq!((quantity(&found), found.info.stale), (Some(1), None));
    // The expired value is not served in place of an error either.
    stocks.invalidate_tag("a").await.unwrap();
    database.down(true);
    assert!(matches!(stocks.get(&sku("a")).await, Err(CacheError::Load(_))));
    server.end().await;
}

#[tokio::test]
async fn several_keys_at_once_honour_tags() {
    let server = World::start().await;
    let database = Database::with(&[("ax", 0), ("bx", 0), ("c", 0)]);
    let rows = Arc::clone(&database);
    let builder = patient(&server.url()).await.batch_loader(move |keys: Vec<Sku>| {
        let rows = Arc::clone(&rows);
        async move {
            let found = rows.query_many(&keys).await?;
            let loaded = |(key, row): (Sku, Option<Stock>)| {
                let bad = key.0 == "bad";
                let tags: Vec<_> = key.0.chars().map(|letter| if bad { '\n' } else { letter }.to_string()).collect();
                (key, Loaded::new(row).tags(tags))
            };
            Ok::<_, std::io::Error>(found.into_iter().map(loaded).collect())
        }
    });
    let stocks = tagged(builder, &database).await;
    let ids = [sku("ax"), sku("bx"), sku("c")];
    let found = async || {
        let many = stocks.get_many(&ids).await.into_iter().map(Result::unwrap);
        many.map(|lookup| (quantity(&lookup).unwrap(), lookup.info.source)).collect::<Vec<_>>()
    };
    assert_eq!(found().await, [(0, Source::Load); 3]);
    assert_eq!(found().await, [(0, Source::Redis); 3]);
    for id in ["ax", "bx", "c"] {
        database.write(id, Some(1));
    }
    stocks.invalidate_tag("x").await.unwrap();
    assert_eq!(found().await, [(1, Source::Load), (1, Source::Load), (0, Source::Redis)]);

    // If a tag is invalidated while all keys are loaded, only its own value is not stored.
    for id in ["ax", "bx", "c"] {
        stocks.invalidate(&sku(id)).await.unwrap();
    }
    let gate = database.shut();
    let (_, ()) = tokio::join!(found(), async {
        database.queried().await;
        stocks.invalidate_tag("a").await.unwrap();
        database.open();
        gate.add_permits(1);
    });
    assert!(!stored(&server, "ax").await && stored(&server, "bx").await && stored(&server, "c").await);

    // If the tag of a row is refused, only that row fails.
    database.write("bad", Some(1));
    let many = stocks.get_many(&[sku("bad"), sku("ax")]).await;
    assert!(matches!(many[0], Err(CacheError::Tag(TagError::Control))), "{:?}", many[0]);
    assert_eq!(many[1].as_ref().map(quantity).unwrap(), Some(1));
    server.end().await;
}

#[tokio::test]
async fn a_tag_that_is_refused_fails_the_load_and_gives_the_lease_back() {
    let server = World::start().await;
    let bad = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&bad);
    let builder = patient(&server.url()).await.loader(move |_| {
        let tags = if told.load(Ordering::SeqCst) { vec!["x".repeat(129)] } else { vec!["x".repeat(128)] };
        async move { Ok::<_, std::convert::Infallible>(Loaded::new(Some(Stock { quantity: 7 })).tags(tags)) }
    });
    let stocks = online(builder).await;
    let refused = stocks.get(&sku("a")).await.unwrap_err();
    assert!(matches!(refused, CacheError::Tag(TagError::TooLong { len: 129 })), "{refused:?}");
    bad.store(false, Ordering::SeqCst);
    let began = Instant::now();
    assert!(get(&stocks, "a").await.info.stored);
    assert!(began.elapsed() < Duration::from_secs(20), "the lease was not given back");
    let refused = stocks.invalidate_tag("").await.unwrap_err();
    assert!(matches!(refused, CacheError::Tag(TagError::Empty)), "{refused:?}");
    assert!(matches!(stocks.invalidate_tag("a\tb").await, Err(CacheError::Tag(TagError::Control))));
    server.end().await;
}

#[tokio::test]
async fn a_key_whose_tags_are_refused_is_held_off_like_any_whose_loads_fail() {
    const LONG: Duration = Duration::from_secs(60);
    let server = World::start().await;
    for builder in [patient(&server.url()).await, Cache::memory()] {
        let loads = Arc::new(AtomicUsize::new(0));
        let (alone, together) = (Arc::clone(&loads), Arc::clone(&loads));
        let row = |key: &Sku| Loaded::new(Some(Stock { quantity: 7 })).tags((key.0 == "bad").then_some("\t"));
        let builder = builder.hold_off(LONG).loader(move |key: Sku| {
            alone.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, std::io::Error>(row(&key)) }
        });
        let builder = builder.batch_loader(move |keys: Vec<Sku>| {
            together.fetch_add(1, Ordering::SeqCst);
            let rows = keys.into_iter().map(move |key| (key.clone(), row(&key)));
            async move { Ok::<_, std::io::Error>(rows.collect()) }
        });
        let stocks = online(builder).await;
        let many = stocks.get_many(&[sku("bad"), sku("good")]).await;
        assert!(matches!(many[0], Err(CacheError::Tag(TagError::Control))), "{:?}", many[0]);
        assert!(many[1].is_ok());
        let second = stocks.get(&sku("bad")).await;
        assert!(matches!(second, Err(CacheError::Tag(TagError::Control))), "one may be an accident: {second:?}");
        let third = stocks.get(&sku("bad")).await;
        assert!(matches!(third, Err(CacheError::HeldOff { .. })), "{third:?}");
        assert_eq!(loads.load(Ordering::SeqCst), 2);
    }
    server.end().await;
}
