//! Caches whose values have tags.

use std::sync::Arc;

use stockade::cache::{CacheBuilder, Loaded, Source};

use crate::{
    cache::support::{Database, Sku, Stock, Stocks, get},
    world::online,
};

/// A cache in which a value has the tag `all`, and a tag for each letter of its id except `-`.
pub(super) fn tagging(builder: CacheBuilder<Sku, Stock>, database: &Arc<Database>) -> CacheBuilder<Sku, Stock> {
    let database = Arc::clone(database);
    builder.loader(move |sku: Sku| {
        let database = Arc::clone(&database);
        async move {
            let row = database.query(&sku.0).await?;
            let letters = sku.0.chars().filter(|letter| *letter != '-').map(String::from);
            Ok::<_, std::io::Error>(Loaded::new(row).tags(letters.chain(["all".to_owned()])))
        }
    })
}

pub(in crate::cache) async fn tagged(builder: CacheBuilder<Sku, Stock>, database: &Arc<Database>) -> Stocks {
    online(tagging(builder, database)).await
}

pub(super) async fn source(stocks: &Stocks, id: &str) -> Source {
    get(stocks, id).await.info.source
}
