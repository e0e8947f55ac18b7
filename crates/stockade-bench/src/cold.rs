//! One key that nobody has cached, and everybody wants.

use std::{
    convert::Infallible,
    env,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cached::{AsyncRedisCache, ConcurrentCachedAsync};
use stockade::{Cache, Redis};
use stockade_testbed::RedisServer;
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    child,
    contender::Failure,
    goals,
    page::Page,
    report::{Figures, quantile},
};

const PROCESSES: usize = 3;
const CALLERS: u32 = 1_000;
const ROUNDS: u32 = 9;
/// How long a load takes, in place of a statement.
const LOAD: Duration = Duration::from_millis(20);

/// Loads and the time to the last answer, next to a cache in which every caller loads for itself.
pub(crate) async fn figures(server: &RedisServer) -> Result<Figures, Failure> {
    let peer = measured(server, "peer").await?;
    let own = measured(server, "stockade").await?;
    Figures::new(
        goals::COLD,
        &["loads", "ms to the last answer", "fastest round, ms", "slowest round, ms"],
        vec![
            ("cached: asked, loaded, stored by each caller".to_owned(), peer),
            ("stockade, Cache::get".to_owned(), own),
        ],
    )
}

async fn measured(server: &RedisServer, kind: &str) -> Result<Vec<f64>, Failure> {
    let url = server.url();
    let settings = [("REDIS_URL", url.as_str()), ("KIND", kind)];
    let mut parts = (0..PROCESSES).map(|_| child::start("ask", &settings)).collect::<Result<Vec<_>, _>>()?;
    for part in &mut parts {
        part.says("ready", child::LIMIT).await?;
    }
    let (mut loads, mut millis) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        for part in &mut parts {
            part.tell(&round.to_string()).await?;
        }
        let (mut of_all, mut last) = (0.0, 0.0_f64);
        for part in &mut parts {
            let said = part.says("loads ", child::LIMIT).await?;
            let (of_one, took) = said.split_once(" ms ").ok_or("a child measured in another way")?;
            of_all += of_one.parse::<f64>()?;
            last = last.max(took.parse()?);
        }
        loads.push(of_all);
        millis.push(last);
    }
    let [fastest, median, slowest] = [0.0, 0.5, 1.0].map(|part| quantile(millis.clone(), part));
    // The most loads of any round: one that was too many must show.
    Ok(vec![quantile(loads, 1.0), median, fastest, slowest])
}

/// The part of one process: at each line all its callers ask for the page that the line names.
pub(crate) async fn ask() -> Result<ExitCode, Failure> {
    let url = env::var("REDIS_URL")?;
    let loads = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&loads);
    let redis = Redis::connect(url.clone()).await?;
    let own = Arc::new(
        Cache::builder(&redis)
            .name("cold")
            .loader(move |page: Page| {
                let counted = Arc::clone(&counted);
                async move { Ok::<_, Infallible>(Some(load(&counted, page.0).await)) }
            })
            .build(),
    );
    let peer = AsyncRedisCache::<u32, String>::builder("cold").connection_string(&url).build().await?;
    let is_peer = env::var("KIND")? == "peer";
    own.get(&Page(0)).await?;
    let mut lines = BufReader::new(stdin()).lines();
    println!("ready");
    while let Some(line) = lines.next_line().await? {
        let (page, began) = (line.parse()?, Instant::now());
        loads.store(0, Ordering::Relaxed);
        let mut asking = JoinSet::new();
        for _ in 0..CALLERS {
            let (own, peer, loads) = (Arc::clone(&own), peer.clone(), Arc::clone(&loads));
            asking.spawn(async move {
                if !is_peer {
                    drop(own.get(&Page(page)).await?);
                } else if peer.async_cache_get(&page).await?.is_none() {
                    peer.async_cache_set(page, load(&loads, page).await).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(answered) = asking.join_next().await {
            answered??;
        }
        println!("loads {} ms {}", loads.load(Ordering::Relaxed), began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(ExitCode::SUCCESS)
}

async fn load(loads: &AtomicU32, page: u32) -> String {
    loads.fetch_add(1, Ordering::Relaxed);
    sleep(LOAD).await;
    format!("{page:0>256}")
}
