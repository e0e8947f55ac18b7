//! The filter of the SKUs that exist.

use futures_util::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use sqlx::PgPool;
use stockade::{
    Redis,
    cache::{Bloom, BuildError},
    postgres,
};

use crate::{
    db,
    domain::{Sku, Stock},
};

/// How many rows a statement reads.
const BATCH: i64 = 10_000;

/// Opens the filter on the Redis of the cache. If it is not complete, one process of the fleet builds it in the
/// background; until then the filter lets every SKU pass.
///
/// # Errors
///
/// As `BloomBuilder::try_build`.
pub(crate) fn open(redis: &Redis, pg: &PgPool) -> Result<Bloom, BuildError> {
    let pg = pg.clone();
    Bloom::builder::<Sku>(redis).source(move || existing(pg.clone())).try_build()
}

/// Every SKU that exists. A transaction that was writing before this filter was begun may have added its SKU to an
/// earlier filter only, so its end is awaited. A later transaction adds to this filter itself.
fn existing(pg: PgPool) -> BoxStream<'static, Result<Sku, sqlx::Error>> {
    let begin = {
        let pg = pg.clone();
        async move {
            db::sku_filter::announce(&pg).await?;
            postgres::settled(&pg).await
        }
    };
    stream::once(begin).map_ok(move |()| batches(pg.clone())).try_flatten().boxed()
}

fn batches(pg: PgPool) -> impl Stream<Item = Result<Sku, sqlx::Error>> {
    let batch = move |after: Option<Sku>| {
        let pg = pg.clone();
        async move {
            let rows = db::stock::page(&pg, after.as_ref(), BATCH).await?;
            let skus: Vec<Sku> = rows.into_iter().map(|Stock { sku, .. }| sku).collect();
            Ok::<_, sqlx::Error>(skus.last().cloned().map(|last| (stream::iter(skus.into_iter().map(Ok)), Some(last))))
        }
    };
    stream::try_unfold(None, batch).try_flatten()
}
