//! Filters that are built again, given another size, or emptied.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use futures_util::{StreamExt, stream};
use stockade::cache::Bloom;

use super::{
    bloom::{PLENTY, filter, ids, rationed, redis},
    support::{Sku, eventually, sku},
};
use crate::world::{World, attended};

async fn is_building(server: &World) -> bool {
    let state = server.command(&["KEYS", "*}b:stock"]).await.unwrap();
    !state.is_empty() && server.command(&["HGET", &state, "building"]).await.unwrap() != ""
}

#[tokio::test]
async fn a_filter_is_built_anew_while_the_old_one_answers() {
    let server = World::start().await;
    let (bloom, gate) = rationed(&server.url()).await;
    let other = filter(&server.url()).await;
    let rebuilding = bloom.clone();
    let rebuilding = async move { rebuilding.rebuild().await };
    let looking = async {
        eventually("it is being built", || is_building(&server)).await;
        for bloom in [&bloom, &other] {
            assert!(!bloom.may_hold(&sku("none")).await, "the old one says nothing");
            assert!(bloom.may_hold(&sku("n5")).await);
        }
        other.add(&[sku("new")]).await.unwrap();
        assert!(bloom.may_hold(&sku("new")).await, "not in the old one");
        gate.add_permits(PLENTY);
    };
    let (rebuilt, ()) = tokio::join!(rebuilding, looking);
    rebuilt.unwrap();
    assert!(!is_building(&server).await);
    for bloom in [&bloom, &other] {
        assert!(bloom.may_hold(&sku("new")).await && bloom.may_hold(&sku("n999")).await, "an id was lost");
        assert!(!bloom.may_hold(&sku("none")).await);
    }
    server.end().await;
}

/// A filter of the ids below `end`. Counts the calls of its source, and the most calls at a time.
async fn counted(url: &str, end: &Arc<AtomicU64>, calls: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> Bloom {
    struct Running(Arc<AtomicUsize>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (end, calls, most, running) = (Arc::clone(end), Arc::clone(calls), Arc::clone(most), Arc::default());
    let source = move || {
        calls.fetch_add(1, Ordering::SeqCst);
        let running: Arc<AtomicUsize> = Arc::clone(&running);
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let running = Running(running);
        let numbers = 0..end.load(Ordering::SeqCst);
        stream::iter(numbers).map(move |number| {
            let _ = &running;
            Ok::<_, Infallible>(sku(&format!("n{number}")))
        })
    };
    let bloom = attended(Bloom::builder::<Sku>(&redis(url).await).expected(2000).source(source).build());
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    bloom
}

#[tokio::test]
async fn every_rebuild_reads_its_source_after_the_call_and_drops_what_is_gone() {
    let server = World::start().await;
    let (end, calls, most) = (Arc::new(AtomicU64::new(1000)), Arc::default(), Arc::default());
    let one = counted(&server.url(), &end, &calls, &most).await;
    let two = counted(&server.url(), &end, &calls, &most).await;
    end.store(10, Ordering::SeqCst);
    let before = calls.load(Ordering::SeqCst);
    for rebuilt in futures_util::future::join_all([one.rebuild(), two.rebuild(), one.rebuild()]).await {
        rebuilt.unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst) - before, 3, "one was content with what another had read before");
    assert_eq!(most.load(Ordering::SeqCst), 1, "two were built at once by one process");
    let gone: Vec<_> = (10..1000).map(|number| sku(&format!("n{number}"))).collect();
    let held = two.may_hold_many(&gone).await.into_iter().filter(|held| *held).count();
    assert!(held < 100, "{held} of 990 ids that are gone pass");
    assert!(one.may_hold(&sku("n9")).await);
    server.end().await;
}

#[tokio::test]
async fn a_rebuild_whose_source_fails_says_so_and_leaves_the_old_filter() {
    let server = World::start().await;
    let _complete = filter(&server.url()).await;
    let failing = || stream::once(async { Err::<Sku, _>(std::io::Error::other("the database is down")) });
    let bloom = attended(Bloom::builder::<Sku>(&redis(&server.url()).await).expected(2000).source(failing).build());
    let refused = bloom.rebuild().await.unwrap_err();
    assert!(std::error::Error::source(&refused).is_some_and(|error| error.to_string().contains("down")), "{refused:?}");
    assert!(bloom.may_hold(&sku("n5")).await && !bloom.may_hold(&sku("none")).await);
    server.end().await;
}

#[tokio::test]
async fn a_filter_is_given_another_size_and_no_process_loses_an_id() {
    let server = World::start().await;
    let old = filter(&server.url()).await;
    let larger =
        attended(Bloom::builder::<Sku>(&redis(&server.url()).await).expected(50_000).source(|| ids(0..1000)).build());
    eventually("the newer is connected", || async { larger.stats().ready }).await;
    let bytes = async || -> u64 {
        let mut bytes = 0;
        for key in server.command(&["KEYS", "*}b?:stock"]).await.unwrap().lines() {
            bytes += server.command(&["STRLEN", key]).await.unwrap().parse::<u64>().unwrap();
        }
        bytes
    };
    let before = bytes().await;
    old.resize().await.unwrap();
    assert!(!larger.may_hold(&sku("none")).await, "begun anew although it had that size");

    larger.resize().await.unwrap();
    // The old process has not heard of it.
    assert!(old.may_hold(&sku("n5")).await);
    eventually("both can tell", || async { !old.may_hold(&sku("none")).await && !larger.may_hold(&sku("none")).await })
        .await;
    assert_eq!(bytes().await, larger.stats().bits.div_ceil(8));
    assert!(bytes().await > 10 * before);
    old.add(&[sku("later")]).await.unwrap();
    for bloom in [&old, &larger] {
        assert!(bloom.may_hold(&sku("n999")).await && bloom.may_hold(&sku("later")).await);
    }
    server.end().await;
}

#[tokio::test]
async fn a_filter_that_was_cleared_lets_all_pass_and_keeps_what_is_added_while_it_is_built() {
    let server = World::start().await;
    let (bloom, gate) = rationed(&server.url()).await;
    let other = filter(&server.url()).await;
    bloom.add(&[sku("before")]).await.unwrap();
    // Without the other process the filter is built only from the source of this one, which waits for permits.
    other.shutdown(std::time::Duration::from_secs(1)).await;
    bloom.clear().await.unwrap();
    assert!(bloom.may_hold(&sku("none")).await, "empty, and says absent");
    eventually("it is being built", || is_building(&server)).await;
    bloom.add(&[sku("new")]).await.unwrap();
    gate.add_permits(PLENTY);
    eventually("it is built", || async { !bloom.may_hold(&sku("none")).await }).await;
    assert!(bloom.may_hold(&sku("new")).await && bloom.may_hold(&sku("n5")).await, "an id was lost");
    assert!(!bloom.may_hold(&sku("before")).await, "it was not forgotten");
    server.end().await;
}
