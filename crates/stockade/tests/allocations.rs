//! A hit in the memory of the process takes no memory, with metrics counted.

use std::{borrow::Cow, convert::Infallible, time::Duration};

use futures_util::FutureExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use stockade::{Cache, Redis, Resource, cache::Source};
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

struct Sku(&'static str);

impl Clone for Sku {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}

#[tokio::test]
async fn a_hit_in_the_process_takes_no_memory() {
    PrometheusBuilder::new().install_recorder().unwrap();
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let load = |sku: Sku| async move { Ok::<_, Infallible>((sku.0 != "absent").then(|| "x".repeat(256))) };
    let remote = Cache::builder(&redis).local(1 << 20).loader(load).build();
    let memory = Cache::memory().loader(load).build();
    for (cache, id) in
        [&remote, &memory].into_iter().flat_map(|cache| ["85123A", "BANK: 5%", "absent"].map(|id| (cache, id)))
    {
        let key = Sku(id);
        let limit = Instant::now() + Duration::from_secs(10);
        while cache.get(&key).await.unwrap().info.source != Source::Local {
            assert!(Instant::now() < limit, "`{id}` never came from the process");
            sleep(Duration::from_millis(2)).await;
        }
        let taken = allocation_counter::measure(|| {
            for _ in 0..1000 {
                let found = cache.get(&key).now_or_never().unwrap().unwrap();
                assert_eq!(found.info.source, Source::Local);
            }
        });
        assert_eq!(taken.count_total, 0, "`{id}`: {taken:?}");
    }
}
