//! `inventory health`, as a container's health check runs it.

use std::{process::ExitStatus, time::Duration};

use futures_util::future::join_all;
use stockade_testbed::{Fault, Proxy};
use tokio::time::Instant;

use crate::stage::{Instance, Stage, bare_command, outcome, until};

const CROWD: i64 = 400;

async fn health(address: &str) -> (ExitStatus, String) {
    let mut command = bare_command("health");
    // No proxy listens on port 1: the check must connect to this host directly.
    command.env("OPS_ADDR", address).env("HEALTH_TIMEOUT", "1s").env("http_proxy", "http://127.0.0.1:1");
    outcome(command).await
}

fn ops(instance: &Instance) -> &str {
    instance.ops.strip_prefix("http://").unwrap()
}

#[tokio::test]
async fn its_status_is_that_of_readiness() {
    let stage = Stage::bare().await;
    let instance = stage.serve(&[]).await;
    let (status, output) = health(ops(&instance)).await;
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("inventory migrate"), "{output}");

    let (migrated, output) = stage.run("migrate", &[]).await;
    assert!(migrated.success(), "{output}");
    until("it is ready", async || health(ops(&instance)).await.0.success()).await;
    let port = ops(&instance).rsplit_once(':').unwrap().1;
    let (status, output) = health(&format!("0.0.0.0:{port}")).await;
    assert_eq!((status.code(), output.as_str()), (Some(0), "ready\n"));

    stage.redis.kill().await.unwrap();
    until("the loss of Redis is seen", async || health(ops(&instance)).await.1 == "degraded\n").await;
    let (status, output) = health(ops(&instance)).await;
    assert_eq!(status.code(), Some(0), "{output}");

    instance.freeze();
    let asked = Instant::now();
    let (status, output) = health(ops(&instance)).await;
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn another_program_is_not_taken_for_a_ready_instance() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = axum::Router::new().fallback(async || "welcome");
    let mut other = tokio::task::JoinSet::new();
    other.spawn(axum::serve(listener, app).into_future());
    let (status, output) = health(&address).await;
    assert!(status.code() == Some(1) && output.contains("is no instance"), "{output}");
}

#[tokio::test]
async fn a_scrape_shows_whether_the_instance_is_ready() {
    let stage = Stage::bare().await;
    let instance = stage.serve(&[("SHUTDOWN_DELAY", "5s")]).await;
    let is = async |ready: u8| instance.metrics().await.contains(&format!("\ninventory_ready {ready}\n"));
    assert!(is(0).await, "there is no schema");

    let (migrated, output) = stage.run("migrate", &[]).await;
    assert!(migrated.success(), "{output}");
    until("it is shown as ready", async || is(1).await).await;
    instance.terminate();
    until("it is shown as going away", async || is(0).await).await;
}

#[tokio::test]
async fn a_crowd_of_probes_over_a_slow_network_asks_the_database_once() {
    let stage = Stage::start().await;
    let proxy = Proxy::start(stage.postgres.addr()).await.unwrap();
    let instance = stage.serve(&[("DATABASE_URL", &proxy.url_for(&stage.database_url))]).await;
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;
    sqlx::query("create extension pg_stat_statements").execute(&stage.pool).await.unwrap();
    // A query takes longer than an answer is fresh.
    proxy.set(Fault::Delay(Duration::from_millis(60)));
    let answers = join_all((0..CROWD).map(|_| instance.get("/readyz"))).await;

    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let asked = "select calls from pg_stat_statements where query like '%from _sqlx_migrations where version%'";
    let asked = stage.count(asked).await;
    assert!(asked <= CROWD / 10, "{CROWD} probes have asked {asked} times");
}

#[tokio::test]
async fn nobody_there_and_a_bad_address_are_named() {
    let (status, output) = health("127.0.0.1:1").await;
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("127.0.0.1:1") && output.contains("refused"), "{output}");
    let (status, output) = health("localhost").await;
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("OPS_ADDR=\"localhost\"") && output.contains("IP:PORT"), "{output}");
}
