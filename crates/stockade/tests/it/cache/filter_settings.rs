//! Filters that are refused when they are built.

use std::{borrow::Cow, convert::Infallible, time::Duration};

use futures_util::stream;
use stockade::{
    Cache, Redis, Resource,
    cache::{Bloom, BuildError},
};

use super::{
    bloom::{ids, redis},
    support::{Database, Loading, Sku, Stock},
};
use crate::world::{World, attended, cached};

#[tokio::test]
async fn sizes_that_can_not_be_are_refused() {
    let redis = redis("redis://127.0.0.1:1").await;
    let setting = |bloom: Result<Bloom, BuildError>| match bloom.err() {
        Some(BuildError::Setting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    let builder = || Bloom::builder::<Sku>(&redis).source(|| ids(0..1));
    assert_eq!(setting(builder().false_positives(0.0).try_build()), "false_positives");
    assert_eq!(setting(builder().false_positives(f64::NAN).try_build()), "false_positives");
    assert_eq!(setting(builder().expected(0).try_build()), "expected");
    assert_eq!(setting(builder().expected(u64::MAX).try_build()), "expected");
    assert_eq!(setting(Bloom::builder::<Sku>(&redis).try_build()), "source");
}

#[tokio::test]
async fn a_filter_of_another_kind_of_keys_is_refused() {
    struct Supplier;
    impl Resource for Supplier {
        const KIND: &'static str = "supplier";

        fn id(&self) -> Cow<'_, str> {
            Cow::Borrowed("x")
        }
    }

    let redis = redis("redis://127.0.0.1:1").await;
    let source = || stream::iter([Ok::<_, Infallible>(Supplier)]);
    // The name of the filter says nothing about its keys.
    let bloom = attended(Bloom::builder::<Supplier>(&redis).name("stock").source(source).build());
    let refused = Cache::builder(&redis).bloom(&bloom).loading(&Database::with(&[])).try_build();
    assert!(matches!(refused, Err(BuildError::Setting { setting: "bloom", .. })), "{refused:?}");
}

#[tokio::test]
async fn two_live_filters_of_one_name_are_refused() {
    let server = World::start().await;
    let redis = redis(&server.url()).await;
    let build = |redis: &Redis| Bloom::builder::<Sku>(redis).source(|| ids(0..1)).try_build().map(attended);
    let first = Bloom::builder::<Sku>(&redis).source(|| ids(0..1)).build();
    let clone = first.clone();
    drop(first);
    assert_eq!(build(&redis).unwrap_err(), BuildError::NameTaken("stock"));
    attended(Bloom::builder::<Sku>(&redis).name("second").source(|| ids(0..1)).build());
    build(&redis.clone().namespace("other")).unwrap();
    // A filter and a cache may have one name.
    cached(Cache::<Sku, Stock>::builder(&redis).loading(&Database::with(&[])).build());
    clone.shutdown(Duration::from_secs(5)).await;
    drop(clone);
    build(&redis).unwrap();
    server.end().await;
}
