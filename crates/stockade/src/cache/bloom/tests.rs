use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::stream;
use stockade_testbed::RedisServer;
use tokio::sync::Notify;

use super::{
    Bloom,
    keeper::{State, build, look},
};
use crate::{Redis, redis::until, resource::Sku};

/// A filter whose source counts its reads, and ends without an id when `complete` is notified.
async fn filter(url: &str, complete: &Arc<Notify>) -> (Bloom, Arc<AtomicUsize>) {
    let (complete, reads) = (Arc::clone(complete), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&reads);
    let source = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let complete = Arc::clone(&complete);
        stream::unfold(complete, |complete| async move {
            complete.notified().await;
            None::<(Result<Sku, Infallible>, _)>
        })
    };
    let redis =
        Redis::builder(url).command_timeout(Duration::from_secs(10)).connect().await.expect("the server is there");
    (Bloom::builder::<Sku>(&redis).expected(100).source(source).build(), reads)
}

#[tokio::test]
async fn a_filter_that_another_process_completed_since_the_look_is_not_built_again() {
    let server = RedisServer::start().await.expect("a server");
    let complete = Arc::new(Notify::new());
    let (one, reads_of_one) = filter(&server.url(), &complete).await;
    until("it is being built", || reads_of_one.load(Ordering::SeqCst) == 1).await;
    let (other, reads_of_other) = filter(&server.url(), &complete).await;
    other.attempted().await;
    let looked = look(&other.shared).await.expect("the server answers");
    assert_eq!(looked, State::Incomplete { epoch: 0 });

    complete.notify_one();
    until("it is complete", || one.stats().ready).await;
    assert!(!build(&other.shared, Some(0)).await.expect("the server answers"), "built what is complete");
    assert_eq!(reads_of_other.load(Ordering::SeqCst), 0, "its source was read");
    assert_eq!(look(&other.shared).await.expect("the server answers"), State::Complete);

    complete.notify_one();
    assert!(build(&other.shared, None).await.expect("the server answers"), "asked for, and not built");
    assert_eq!(reads_of_other.load(Ordering::SeqCst), 1);
    one.shutdown(Duration::from_secs(5)).await;
    other.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_filter_whose_source_panicked_is_built_by_the_next_attempt() {
    let server = RedisServer::start().await.expect("a server");
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let source = move || {
        assert!(counted.fetch_add(1, Ordering::SeqCst) > 0, "asked to");
        stream::iter([Ok::<_, Infallible>(Sku("a"))])
    };
    let redis = Redis::builder(server.url()).command_timeout(Duration::from_secs(10)).connect().await;
    let bloom = Bloom::builder::<Sku>(&redis.expect("the server is there")).expected(100).source(source).build();
    until("the source panicked", || reads.load(Ordering::SeqCst) == 1).await;
    // Without this the next attempt begins when the lease of the failed one has ended, after half a minute.
    let state = server.command(&["KEYS", "*}b:stock"]).await.expect("the server answers");
    server.command(&["HDEL", &state, "builder"]).await.expect("the server answers");
    until("it is complete", || bloom.stats().ready).await;
    assert_eq!(reads.load(Ordering::SeqCst), 2);
    bloom.shutdown(Duration::from_secs(5)).await;
}
