use std::{borrow::Cow, convert::Infallible, hint::black_box};

use futures_util::FutureExt;
use stockade::{Cache, Redis, Resource, cache::Source};
use stockade_testbed::RedisServer;

use crate::{
    contender::Failure,
    goals,
    hits::{self, KEYS},
    report::Figures,
    under_lock,
};

#[derive(Clone)]
struct Page(String);

impl Resource for Page {
    const KIND: &'static str = "page";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

/// The whole of a hit in the process, with its metrics counted by a Prometheus recorder.
pub(crate) async fn whole(server: &RedisServer) -> Result<Figures, Failure> {
    let redis = Redis::connect(server.url()).await?;
    let load = |_: Page| async { Ok::<_, Infallible>(Some("x".repeat(256))) };
    let cache = Cache::builder(&redis).name("whole").local(16 << 20).loader(load).build();
    let pages: Vec<_> = (0..KEYS).map(|i| Page(format!("{i:010}"))).collect();
    for page in &pages {
        hits::warm(&cache, page, Source::Local).await?;
    }
    let hit = || {
        |i: usize| {
            let found = black_box(cache.get(&pages[i]).now_or_never());
            matches!(found, Some(Ok(found)) if found.info.source == Source::Local)
        }
    };
    let times = tokio::task::block_in_place(|| hits::nanoseconds(&hit))?;
    let under_lock = under_lock::nanoseconds(&redis).await?;
    Figures::new(
        goals::TIER,
        &["ns, one thread", "ns, each of two threads"],
        vec![
            ("stockade, Cache::get".to_owned(), times.to_vec()),
            ("stockade, Cached under a shared lock".to_owned(), under_lock.to_vec()),
        ],
    )
}
