//! A cache in front of a catalogue: a filter of the ids that exist (Bloom), values warmed before the first request and
//! served from the memory of the process (`.local`), and all products of a supplier dropped at once (tags).
//!
//! ```text
//! cargo build -p stockade --example catalogue
//! cargo run -p stockade-testbed -- exec -- target/debug/examples/catalogue
//! ```

use std::{borrow::Cow, convert::Infallible, env, error::Error, num::NonZeroU32, time::Duration};

use futures_util::stream;
use stockade::{
    Cache, Redis, Resource,
    cache::{Bloom, Loaded},
};

/// Stands for a table: SKU, supplier, price.
const PRODUCTS: [(&str, &str, u64); 3] = [("22423", "7", 1275), ("85123A", "7", 255), ("84879", "9", 169)];

#[derive(Clone)]
struct Sku(&'static str);

impl Resource for Sku {
    const KIND: &'static str = "price";

    fn id(&self) -> Cow<'_, str> {
        self.0.into()
    }
}

async fn load(sku: Sku) -> Result<Loaded<u64>, Infallible> {
    let row = PRODUCTS.into_iter().find(|(known, ..)| *known == sku.0);
    let tags = row.map(|(_, supplier, _)| format!("supplier:{supplier}"));
    Ok(Loaded::new(row.map(|(.., price)| price)).tags(tags))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says what came of it")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let redis = Redis::connect(env::var("REDIS_URL")?).await?;
    let skus = || PRODUCTS.map(|(sku, ..)| Sku(sku));

    let known = Bloom::builder::<Sku>(&redis)
        .expected(1_000)
        .source(move || stream::iter(skus().map(Ok::<_, Infallible>)))
        .build();
    let prices = Cache::builder(&redis)
        .ttl(Duration::from_secs(300)..=Duration::from_secs(600))
        .local(1 << 20) // bytes
        .bloom(&known)
        .load_rate(const { NonZeroU32::new(500).unwrap() }) // a second: many prices that expire together are spread
        .grace(Duration::from_secs(3600))
        .soft_timeout(Duration::from_millis(50)) // while the table is slow, a price that has expired will do
        .hard_timeout(Duration::from_secs(1)) // without one, nobody waits longer than this
        .loader(load)
        .build();

    // A service does both before it says that it is ready. Reads that come earlier are answered, too.
    known.rebuild().await?;
    let report = prices.warm(stream::iter(skus())).within(Duration::from_secs(10)).run().await;
    println!("warm: {} loaded", report.loaded);

    for sku in [Sku("85123A"), Sku("99999")] {
        let found = prices.get(&sku).await?;
        println!("{}: {:?} from {:?}", sku.0, found.value, found.info.source);
    }

    // The prices of one supplier have changed. With Postgres, `Tx::invalidate_tag` does this with the commit.
    prices.invalidate_tag("supplier:7").await?;
    for sku in [Sku("85123A"), Sku("84879")] {
        println!("{}: from {:?}", sku.0, prices.get(&sku).await?.info.source);
    }

    let limit = Duration::from_secs(5);
    tokio::join!(prices.shutdown(limit), known.shutdown(limit));
    Ok(())
}
