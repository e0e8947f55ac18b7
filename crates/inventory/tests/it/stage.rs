//! The real binary on a private Postgres and a private Redis.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};
pub(crate) use stockade_testbed::eventually as until;
use stockade_testbed::{PostgresServer, RedisServer, Watchdog};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, timeout},
};

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) const ADMIN_TOKEN: &str = "correct-horse";

/// The servers of a test, and a pool with which the test reads and changes the database without the service.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    pub(crate) postgres: PostgresServer,
    pub(crate) pool: PgPool,
    pub(crate) database_url: String,
    http: reqwest::Client,
}

impl Stage {
    /// A stage with a migrated database.
    pub(crate) async fn start() -> Self {
        let stage = Self::bare().await;
        let (status, output) = stage.run("migrate", &[]).await;
        assert!(status.success(), "{output}");
        stage
    }

    /// A stage with an empty database.
    pub(crate) async fn bare() -> Self {
        let (redis, postgres) = tokio::join!(RedisServer::start(), PostgresServer::start());
        let (redis, postgres) = (redis.unwrap(), postgres.unwrap());
        let database_url = postgres.url();
        let pool = PgPool::connect(&database_url).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        Self { redis, postgres, pool, database_url, http }
    }

    fn command(&self, subcommand: &str, settings: &[(&str, &str)]) -> Command {
        let mut command = bare_command(subcommand);
        command.env("DATABASE_URL", &self.database_url);
        if subcommand == "serve" {
            command.env("REDIS_URL", self.redis.url()).env("ADMIN_TOKEN", ADMIN_TOKEN);
            command.env("LISTEN_ADDR", "127.0.0.1:0").env("OPS_ADDR", "127.0.0.1:0");
        }
        command.envs(settings.iter().copied());
        command
    }

    /// Runs a command that ends by itself. Returns its status and its whole output.
    pub(crate) async fn run(&self, subcommand: &str, settings: &[(&str, &str)]) -> (ExitStatus, String) {
        outcome(self.command(subcommand, settings)).await
    }

    /// Starts an instance and waits until it listens.
    pub(crate) async fn serve(&self, settings: &[(&str, &str)]) -> Instance {
        self.spawn(self.command("serve", settings)).await
    }

    /// An instance that is started under a limit of open files, given as the arguments of `ulimit`.
    pub(crate) async fn serve_under(&self, ulimit: &str) -> Instance {
        let command = self.command("serve", &[]);
        let command = command.as_std();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::null()).kill_on_drop(true);
        self.spawn(shell).await
    }

    async fn spawn(&self, mut command: Command) -> Instance {
        let log = log_file();
        command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let watchdog = Watchdog::over(child.id().unwrap()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = address(&mut lines, "listening on ", &log).await;
        let ops = address(&mut lines, "ops on ", &log).await;
        Instance { child, _watchdog: watchdog, url, ops, log, http: self.http.clone() }
    }

    /// A digest of everything that a request could change.
    pub(crate) async fn fingerprint(&self) -> String {
        sqlx::query_scalar(
            "select concat_ws('/',
                (select string_agg(concat_ws(',', sku, quantity, version, updated_at), ';' order by sku) from stock),
                (select count(*) from movement),
                (select count(*) from idempotency))",
        )
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }

    /// A transaction that holds the row of `A`, so that an adjustment stays inside its lock.
    pub(crate) async fn hold_row(&self) -> Transaction<'_, Postgres> {
        let mut transaction = self.pool.begin().await.unwrap();
        sqlx::query("select from stock where sku = 'A' for update").execute(&mut *transaction).await.unwrap();
        transaction
    }

    pub(crate) async fn until_one_waits_for_a_row(&self) {
        until("a statement waits for its row", async || {
            self.count("select count(*) from pg_stat_activity where wait_event_type = 'Lock'").await == 1
        })
        .await;
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }
}

/// The binary with an empty environment.
pub(crate) fn bare_command(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.arg(subcommand).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub(crate) async fn outcome(mut command: Command) -> (ExitStatus, String) {
    let output = timeout(LIMIT, command.output()).await.expect("it ends by itself").unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8(text).unwrap())
}

async fn address(lines: &mut Lines<BufReader<ChildStdout>>, prefix: &str, log: &Path) -> String {
    let line = timeout(LIMIT, lines.next_line()).await.expect("it says where it listens").unwrap();
    let line = line.unwrap_or_else(|| panic!("it ended: {}", text(log)));
    line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// A running `inventory serve`. It is killed when it is dropped, and when this process ends in any way.
pub(crate) struct Instance {
    child: Child,
    _watchdog: Watchdog,
    pub(crate) url: String,
    pub(crate) ops: String,
    log: PathBuf,
    http: reqwest::Client,
}

impl Instance {
    /// Host and port of the public side.
    pub(crate) fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// A request to another instance, on the connections of this one's client.
    pub(crate) fn request_at(&self, url: &str, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{url}{path}"))
    }

    /// A request to the operators' side, with the token.
    pub(crate) fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.ops)).bearer_auth(ADMIN_TOKEN)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    pub(crate) async fn put(&self, sku: &str, quantity: i64) -> Answer {
        let body = json!({ "quantity": quantity });
        Answer::to(self.request(Method::PUT, &format!("/stock/{sku}")).json(&body)).await
    }

    pub(crate) async fn delete(&self, sku: &str) -> Answer {
        Answer::to(self.request(Method::DELETE, &format!("/stock/{sku}"))).await
    }

    pub(crate) fn adjustment(&self, sku: &str, delta: i64) -> RequestBuilder {
        self.request(Method::POST, &format!("/stock/{sku}/adjustments")).json(&json!({ "delta": delta }))
    }

    pub(crate) async fn adjust(&self, sku: &str, delta: i64) -> Answer {
        Answer::to(self.adjustment(sku, delta)).await
    }

    pub(crate) async fn metrics(&self) -> String {
        self.http.get(format!("{}/metrics", self.ops)).send().await.unwrap().text().await.unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// `kill -STOP`: the instance keeps its ports and answers nobody.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// `kill -CONT`: the instance goes on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// `kill -9`, while requests to it are under way.
    pub(crate) fn kill_under_way(&self) {
        self.signal(Signal::KILL);
    }

    /// `kill -9`
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Whether the process that was started still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let ended = timeout(LIMIT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it goes on: {}", text(&self.log))).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        text(&self.log)
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    /// From sending the request to the end of the answer. For a response received elsewhere, from its head to its end.
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) async fn to(request: RequestBuilder) -> Self {
        let sent = Instant::now();
        let answer = Self::of(request.send().await.unwrap()).await;
        Self { took: sent.elapsed(), ..answer }
    }

    pub(crate) async fn of(response: Response) -> Self {
        let head = Instant::now();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        Self { status, headers, text, took: head.elapsed() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The last part of the problem type.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        self.json()["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }
}

fn log_file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stage-{}-{number}.log", std::process::id()))
}

fn text(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}
