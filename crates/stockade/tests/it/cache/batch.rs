//! Several keys at once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize, Serializer};
use stockade::{
    Cache,
    cache::{CacheBuilder, CacheError, Source},
};
use tokio::task::yield_now;

use super::support::{
    Database, Loading, Sku, Stock, Stocks, eventually, get, held_load, patient, process, quantity, sku, stored,
};
use crate::world::{World, cached, patient as patient_redis};

type Batches = Arc<Mutex<Vec<Vec<String>>>>;

/// Loads several rows by one query, and notes the keys of each query.
fn batching(builder: CacheBuilder<Sku, Stock>, database: &Arc<Database>) -> (CacheBuilder<Sku, Stock>, Batches) {
    let batches = Batches::default();
    let (database, noted) = (Arc::clone(database), Arc::clone(&batches));
    let builder = builder.batch_loader(move |keys: Vec<Sku>| {
        let database = Arc::clone(&database);
        let mut ids: Vec<_> = keys.iter().map(|key| key.0.clone()).collect();
        ids.sort();
        noted.lock().unwrap().push(ids);
        async move { database.query_many(&keys).await }
    });
    (builder, batches)
}

fn skus(ids: &[&str]) -> Vec<Sku> {
    ids.iter().map(|id| sku(id)).collect()
}

async fn found(stocks: &Stocks, ids: &[&str]) -> Vec<Option<u64>> {
    stocks.get_many(&skus(ids)).await.iter().map(|lookup| quantity(lookup.as_ref().unwrap())).collect()
}

#[tokio::test]
async fn what_is_missing_is_loaded_by_one_query_and_stored() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2), ("c", 3)]);
    let (builder, batches) = batching(process(&server).await, &database);
    let stocks = builder.on(&database).await;
    get(&stocks, "b").await;
    let many = stocks.get_many(&skus(&["a", "b", "none", "c", "a"])).await;
    let many: Vec<_> = many.into_iter().map(Result::unwrap).collect();
    assert_eq!(many.iter().map(quantity).collect::<Vec<_>>(), [Some(1), Some(2), None, Some(3), Some(1)]);
    assert_eq!(many[1].info.source, Source::Redis);
    assert!(many[0].info.stored && many[0].info.source == Source::Load);
    assert_eq!(*batches.lock().unwrap(), [["a", "c", "none"]], "not one query for exactly what was missing");
    let again = stocks.get_many(&skus(&["a", "none", "c"])).await;
    for lookup in again {
        assert_eq!(lookup.unwrap().info.source, Source::Redis);
    }
    assert_eq!(batches.lock().unwrap().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn a_write_to_one_key_while_all_are_loaded_spoils_only_that_one() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2), ("c", 3)]);
    let (builder, _) = batching(process(&server).await, &database);
    let stocks = builder.on(&database).await;
    let gate = database.shut();
    let (many, ()) = tokio::join!(found(&stocks, &["a", "b", "c"]), async {
        database.queried().await;
        database.write("b", Some(9));
        stocks.invalidate(&sku("b")).await.unwrap();
        database.open();
        gate.add_permits(1);
    });
    // This call began before the write, so either value would do.
    assert_eq!(many, [Some(1), Some(2), Some(3)]);
    assert!(stored(&server, "a").await && stored(&server, "c").await, "one refused fill cost the others theirs");
    assert!(!stored(&server, "b").await, "a value from before the write was stored");
    assert_eq!(quantity(&get(&stocks, "b").await), Some(9));
    server.end().await;
}

#[tokio::test]
async fn a_key_that_another_process_loads_is_waited_for_and_not_loaded_again() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2), ("c", 3)]);
    let other = process(&server).await.on(&database).await;
    let (builder, batches) = batching(process(&server).await, &database);
    let stocks = builder.on(&database).await;
    let (gate, mut reads) = held_load(&database, &other, "b").await;
    database.open();
    let (many, ()) = tokio::join!(found(&stocks, &["a", "b", "c"]), async {
        eventually("the rest is loaded", || async { stored(&server, "a").await && stored(&server, "c").await }).await;
        gate.add_permits(1);
    });
    assert_eq!(many, [Some(1), Some(2), Some(3)]);
    assert_eq!(*batches.lock().unwrap(), [["a", "c"]]);
    assert_eq!(quantity(&reads.join_next().await.unwrap().unwrap().unwrap()), Some(2));
    server.end().await;
}

#[tokio::test]
async fn a_key_that_can_not_be_encoded_and_a_query_that_fails_concern_only_themselves() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2)]);
    let (builder, _) = batching(patient(&server.url()).await, &database);
    let stocks = builder.on(&database).await;
    get(&stocks, "a").await;
    database.down(true);
    let many = stocks.get_many(&skus(&["a", "", "b", "c"])).await;
    assert_eq!(many[0].as_ref().map(quantity).unwrap(), Some(1));
    assert!(matches!(many[1], Err(CacheError::Key(_))), "{:?}", many[1]);
    for failed in &many[2..] {
        assert!(matches!(failed, Err(CacheError::Load(_))), "{failed:?}");
    }
    database.down(false);
    // The leases were given back, so no caller waits until they expire.
    let again = tokio::time::timeout(Duration::from_secs(20), found(&stocks, &["b", "c"])).await.unwrap();
    assert_eq!(again, [Some(2), None]);
    server.end().await;
}

#[tokio::test]
async fn without_redis_several_keys_are_still_one_query() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2)]);
    let (builder, batches) = batching(process(&server).await, &database);
    let stocks = builder.on(&database).await;
    server.kill().await.unwrap();
    eventually("the loss is noticed", || async { stocks.is_degraded() }).await;
    let many = stocks.get_many(&skus(&["a", "b"])).await;
    for (lookup, expected) in many.into_iter().zip([1, 2]) {
        let lookup = lookup.unwrap();
        assert_eq!(quantity(&lookup), Some(expected));
        assert!(lookup.info.degraded && !lookup.info.stored);
    }
    assert_eq!(batches.lock().unwrap().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn without_a_batch_loader_each_key_is_loaded_within_the_limit() {
    let server = World::start().await;
    let ids: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let database = Database::with(&ids.iter().map(|id| (id.as_str(), 5)).collect::<Vec<_>>());
    let stocks = process(&server).await.max_loads(4).on(&database).await;
    database.slow(Duration::from_millis(2));
    let many = stocks.get_many(&ids.iter().map(|id| sku(id)).collect::<Vec<_>>()).await;
    assert!(many.iter().all(|lookup| lookup.as_ref().map(quantity).unwrap() == Some(5)));
    assert_eq!(database.loads(), 40);
    assert!(database.most_running.load(Ordering::SeqCst) <= 4, "more loads at once than allowed");
    server.end().await;
}

#[tokio::test]
async fn a_thousand_loaded_values_are_stored_128_at_a_time() {
    static ENCODED: AtomicUsize = AtomicUsize::new(0);
    #[derive(Deserialize)]
    struct Counted;
    impl Serialize for Counted {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            ENCODED.fetch_add(1, Ordering::SeqCst);
            serializer.serialize_unit_struct("Counted")
        }
    }

    let server = World::start().await;
    let paused = server.shared();
    let values = cached(
        Cache::builder(&patient_redis(&server.url()).await.namespace("shop"))
            .loader(async |_: Sku| Ok::<_, std::io::Error>(Some(Counted)))
            .batch_loader(move |keys: Vec<Sku>| {
                // No fill is answered, so the first ones keep all others from being sent.
                paused.pause().unwrap();
                async move { Ok::<_, std::io::Error>(keys.into_iter().map(|key| (key, Some(Counted))).collect()) }
            })
            .build(),
    );
    let keys: Vec<_> = (0..1000).map(|number| sku(&number.to_string())).collect();
    let (many, ()) = tokio::join!(values.get_many(&keys), async {
        eventually("values are encoded", || async { ENCODED.load(Ordering::SeqCst) >= 128 }).await;
        for _ in 0..1000 {
            yield_now().await;
        }
        let encoded = ENCODED.load(Ordering::SeqCst);
        server.resume().unwrap();
        assert_eq!(encoded, 128, "each is encoded right before it is sent");
    });
    assert!(many.iter().all(|found| found.as_ref().unwrap().info.stored));
    assert_eq!(ENCODED.load(Ordering::SeqCst), 1000);
    server.end().await;
}

/// A database that compares without regard to case finds the row, and gives the key as it is stored.
#[tokio::test]
async fn a_row_that_comes_back_under_another_key_is_not_absent() {
    let server = World::start().await;
    let loader = async |key: Sku| Ok::<_, std::io::Error>((key.0 != "none").then_some(Stock { quantity: 7 }));
    let batch = async |keys: Vec<Sku>| {
        let rows = keys.into_iter().filter(|key| key.0 != "none");
        Ok::<_, std::io::Error>(rows.map(|key| (sku(&key.0.to_uppercase()), Some(Stock { quantity: 7 }))).collect())
    };
    let redis = patient_redis(&server.url()).await.namespace("shop");
    let stocks = cached(Cache::builder(&redis).loader(loader).batch_loader(batch).build());
    assert_eq!(found(&stocks, &["a", "b", "none"]).await, [Some(7), Some(7), None]);
    assert_eq!(found(&stocks, &["C", "D"]).await, [Some(7); 2], "given as they were asked for");
    assert_eq!(found(&stocks, &["e"]).await, [Some(7)], "one key alone");

    // A row that comes twice, and one that nobody asked for beside all that somebody did, are no fault.
    let batches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&batches);
    let twice = move |keys: Vec<Sku>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let row = |key: Sku| (key, Some(Stock { quantity: 7 }));
        let mut rows: Vec<_> = keys.iter().filter(|key| key.0 != "none").cloned().map(row).collect();
        rows.extend(rows[..1].iter().map(|(key, _)| row(key.clone())).collect::<Vec<_>>());
        if keys.len() == rows.len() - 1 {
            rows.push(row(sku("other")));
        }
        async { Ok::<_, std::io::Error>(rows) }
    };
    let alone = async |key: Sku| Err::<Option<Stock>, _>(std::io::Error::other(format!("{} alone", key.0)));
    let stocks = cached(Cache::builder(&redis).name("twice").loader(alone).batch_loader(twice).build());
    assert_eq!(found(&stocks, &["f", "none"]).await, [Some(7), None]);
    assert_eq!(found(&stocks, &["g", "h"]).await, [Some(7); 2]);
    assert_eq!(batches.load(Ordering::SeqCst), 2);
    server.end().await;
}
