use std::{borrow::Cow, convert::Infallible, hint::black_box, thread, time::Duration};

use futures_util::FutureExt;
use stockade::{Cache, Redis, Resource, cache::Source};
use stockade_testbed::RedisServer;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    contender::Failure,
    goals,
    report::{Figures, quantile},
    under_lock,
};

const KEYS: usize = 1000;
const HITS: u32 = 200_000;
const ROUNDS: usize = 15;

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
        while cache.get(page).await?.info.source != Source::Local {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let hit = || {
        |i: usize| {
            black_box(cache.get(&pages[i]).now_or_never());
        }
    };
    let times = tokio::task::block_in_place(|| hits(&hit));
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

/// Nanoseconds for each call, on one thread and for each of two; every thread makes its own hits.
pub(crate) fn hits<H: FnMut(usize)>(make: &(impl Fn() -> H + Sync)) -> [f64; 2] {
    let runtime = Handle::current();
    let run = || {
        // A value that memory does not give just now is asked for in Redis.
        let _inside = runtime.enter();
        let mut hit = make();
        let began = Instant::now();
        for i in 0..HITS as usize {
            hit(i.wrapping_mul(7919) % KEYS);
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(HITS)
    };
    [1, 2].map(|threads| {
        let round = || {
            thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                let each = running.into_iter().filter_map(|thread| thread.join().ok());
                each.sum::<f64>() / f64::from(threads)
            })
        };
        quantile((0..ROUNDS).map(|_| round()).collect(), 0.5)
    })
}
