use std::{
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use rand::Rng;
use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade_testbed::{PostgresServer, RedisServer};
use tempfile::TempDir;
use tokio::{time::Instant, try_join};

use super::{
    Args, DemoError,
    instance::{Instance, Settings},
    traffic::Traffic,
    verify::verify,
};
use crate::{
    console,
    orders::{OrderLine, Orders},
    replay::{Plan, ReplayError, RetryLimits, ShopClient, replay},
    seed::seed,
    signals::{INTERRUPTED, Signals},
};

/// The connections of the visitors to each instance.
const CONNECTIONS: usize = 8;
const NAMES: [&str; 2] = ["instance-1", "instance-2"];

/// Gives the demonstration.
pub async fn run(args: Args) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return console::failed(&error),
    };
    match Box::pin(demonstrate(args, &mut signals)).await {
        Ok(code) => code,
        Err(error) => console::failed(&error),
    }
}

async fn demonstrate(args: Args, signals: &mut Signals) -> Result<ExitCode, DemoError> {
    // A signal drops the run, which kills the children; no data of theirs has to be kept.
    let (stage, holds) = tokio::select! {
        result = Stage::play(&args) => result?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    if !args.exit {
        let _traffic = stage.traffic()?;
        stage.print_urls();
        if !args.no_open && has_desktop() {
            let _ = open::that_detached(stage.console("overview"));
        }
        signals.next().await;
        console::note("ending");
    }
    stage.end().await?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The running servers and instances.
struct Stage {
    // Instances before servers: fields are dropped in this order.
    instances: [Instance; 2],
    settings: Settings,
    lines: Arc<[OrderLine]>,
    pool: PgPool,
    postgres: PostgresServer,
    redis: RedisServer,
}

impl Stage {
    /// Starts everything, replays the lines, prints the report and the checks.
    async fn play(args: &Args) -> Result<(Self, bool), DemoError> {
        let begun = Instant::now();
        let csv = args.csv.clone().unwrap_or_else(bundled_csv);
        let orders = Orders::load(&csv, args.lines).await?;
        if orders.lines.is_empty() {
            return Err(ReplayError::Empty.into());
        }
        let lines: Arc<[OrderLine]> = orders.lines.into();

        let kept = args.keep.then(|| tempfile::Builder::new().prefix("inventory-demo-").tempdir().map(TempDir::keep));
        let kept = kept.transpose().map_err(DemoError::Spawn)?;
        if let Some(folder) = &kept {
            console::note(&format!("logs of the instances: {}", folder.display()));
        }
        let stage = Self::start(kept.as_deref(), Arc::clone(&lines)).await?;
        console::note(&format!("ready after {:.1} s", begun.elapsed().as_secs_f64()));

        let plan = Plan {
            lines: Arc::clone(&lines),
            skipped: orders.skipped,
            targets: stage.instances.iter().map(|instance| instance.url.clone()).collect(),
            ops: stage.instances.iter().map(|instance| instance.ops.clone()).collect(),
            concurrency: args.concurrency,
            rate: None,
            browse: args.browse,
            limits: RetryLimits { retries: 12, total: Duration::from_secs(30) },
            journal: None,
            run: "demo".to_owned(),
        };
        let replay = replay(plan).await?;
        console::out(&replay.report.to_string());
        let holds = verify(&stage.pool, &lines, &replay).await?;
        Ok((stage, holds))
    }

    async fn start(kept: Option<&Path>, lines: Arc<[OrderLine]>) -> Result<Self, DemoError> {
        console::note("starting a private PostgreSQL and a private Redis");
        let (postgres, redis) = try_join!(PostgresServer::start(), RedisServer::start())?;
        let settings = Settings {
            database_url: postgres.url(),
            redis_url: redis.url(),
            admin_token: format!("{:032x}", rand::rng().random::<u128>()),
            // The folder of Redis goes however this process ends.
            folder: kept.unwrap_or(redis.folder()).to_owned(),
        };
        settings.migrate().await?;
        let pool = PgPoolOptions::new().max_connections(2).connect(&settings.database_url).await?;
        console::note(&format!("seeded: {}", seed(&pool, &lines, None).await?));

        console::note("starting two instances");
        // The instances are on this machine, where no proxy of the environment finds them.
        let http = reqwest::Client::builder().no_proxy().build()?;
        let instances = try_join!(settings.serve(&http, NAMES[0]), settings.serve(&http, NAMES[1]))?;
        Ok(Self { instances: instances.into(), settings, lines, pool, postgres, redis })
    }

    /// Visitors for both instances.
    fn traffic(&self) -> Result<Traffic, DemoError> {
        let targets: Arc<[_]> = self.instances.iter().map(|instance| instance.url.clone()).collect();
        Ok(Traffic::start(ShopClient::http(CONNECTIONS, &*targets)?, targets, Arc::clone(&self.lines)))
    }

    /// The link to a tab of the console. It contains the token, which ends with the demonstration.
    fn console(&self, tab: &str) -> String {
        format!("{}#{tab}?token={}", self.instances[0].ops, self.settings.admin_token)
    }

    fn print_urls(&self) {
        let Self { instances, settings, .. } = self;
        for (name, Instance { url, ops, .. }) in NAMES.iter().zip(instances) {
            console::out(&format!("{name}    {url}stock/85123A   metrics {ops}metrics"));
        }
        let ops = &instances[0].ops;
        console::out(&format!("console       {}", self.console("overview")));
        console::out(&format!("attack lab    {}", self.console("attacks")));
        console::out(&format!(
            "locks         curl -H 'authorization: Bearer {}' {ops}admin/locks",
            settings.admin_token
        ));
        console::out(&format!("database      psql '{}'", settings.database_url));
        console::out(&format!("redis         redis-cli -u {}", settings.redis_url));
        console::out("visitors      forty a second come and go, for the charts of the console");
        console::out("Ctrl-C ends everything");
    }

    /// Ends the instances in an orderly way, then the servers.
    async fn end(self) -> Result<(), DemoError> {
        let [first, second] = self.instances;
        let (first, second) = tokio::join!(first.stop(NAMES[0]), second.stop(NAMES[1]));
        self.pool.close().await;
        try_join!(self.postgres.kill(), self.redis.kill())?;
        first.and(second)
    }
}

/// Whether the program seems to run on a person's desktop.
fn has_desktop() -> bool {
    let is_there =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    is_there && io::stdout().is_terminal()
}

fn bundled_csv() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/online-retail.csv")
}
