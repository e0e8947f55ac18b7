//! Connections to a Postgres that says nothing more, not even that they are over.

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    flash::{self, reserved, until_closed, until_open, until_stored},
    stage::{Instance, Stage, until},
    support::blocked,
};

const CONNECTIONS: usize = 2;

/// Sends a signal to backends of the server.
fn signal(backends: &[i32], signal: Signal) {
    for pid in backends {
        kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
    }
}

/// An instance that is ready, and whose sessions are named.
async fn serve(stage: &Stage, settings: &[(&str, &str)]) -> Instance {
    let url = format!("{}?application_name=service", stage.database_url);
    let instance = stage.serve(&[&[("DATABASE_URL", url.as_str())], settings].concat()).await;
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;
    instance
}

#[tokio::test]
async fn connections_that_fell_silent_under_requests_that_were_dropped_come_back_to_the_pool() {
    let stage = Stage::start().await;
    let settings = [("DATABASE_MAX_CONNECTIONS", "2"), ("DATABASE_ACQUIRE_TIMEOUT", "3s"), ("STATEMENT_TIMEOUT", "4s")];
    let instance = serve(&stage, &settings).await;
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock").execute(&mut *held).await.unwrap();
    let waiting = "select coalesce(array_agg(pid), '{}') from pg_stat_activity
        where application_name = 'service' and wait_event_type = 'Lock'";
    let backends = async || sqlx::query_scalar::<_, Vec<i32>>(waiting).fetch_one(&stage.pool).await.unwrap();
    // Two reads have all connections. Their backends fall silent while other backends are well, as if the service had
    // connected to a host that is gone and another one had its address.
    let reads = join_all((0..CONNECTIONS).map(|_| instance.get("/stock")));
    let silenced = async {
        until("all connections wait", async || backends().await.len() == CONNECTIONS).await;
        let silenced = backends().await;
        signal(&silenced, Signal::STOP);
        silenced
    };
    let silenced = tokio::select! {
        answers = reads => panic!("{answers:?}"),
        silenced = silenced => silenced,
    };
    held.rollback().await.unwrap();

    until("there are connections again", async || instance.get("/stock").await.status == 200).await;
    signal(&silenced, Signal::CONT);
}

#[tokio::test]
async fn reservations_are_stored_and_a_sale_ends_although_connections_fall_silent_meanwhile() {
    let stage = Stage::start().await;
    let settings = [
        ("LOCK_WAIT", "500ms"),
        ("DATABASE_ACQUIRE_TIMEOUT", "1s"),
        ("STATEMENT_TIMEOUT", "2s"),
        ("REQUEST_TIMEOUT", "4s"),
    ];
    let instance = serve(&stage, &settings).await;
    instance.put("A", 100).await;
    flash::open(&instance, "A", 100, 100).await;
    until_open(&instance).await;
    let waiting = "select pid, query from pg_stat_activity
        where application_name = 'service' and wait_event_type = 'Lock'";
    let mut made = 0;
    let silenced = loop {
        assert!(made < 30, "no transaction waited for the table, only the query that asks which sales there are");
        let mut held = stage.pool.begin().await.unwrap();
        sqlx::query("lock table flash_sale").execute(&mut *held).await.unwrap();
        reserved(&instance, "ann", 1).await;
        made += 1;
        until("it waits for the table", async || blocked(&stage).await > 0).await;
        let waiting: Vec<(i32, String)> = sqlx::query_as(waiting).fetch_all(&stage.pool).await.unwrap();
        let storing: Vec<_> = waiting.iter().filter(|(_, query)| query.contains("for update")).collect();
        if let [(storing, _)] = *storing {
            signal(&[*storing], Signal::STOP);
            held.rollback().await.unwrap();
            break *storing;
        }
        held.rollback().await.unwrap();
        until_stored(&stage, made).await;
    };

    until_stored(&stage, made).await;
    signal(&[silenced], Signal::CONT);

    // The same for the end of the sale, which claims the fence of the SKU first.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stockade.fence").execute(&mut *held).await.unwrap();
    flash::close(&instance, "A").await;
    until("it waits for the table", async || blocked(&stage).await > 0).await;
    let (closing, _): (i32, String) = sqlx::query_as(waiting).fetch_one(&stage.pool).await.unwrap();
    signal(&[closing], Signal::STOP);
    held.rollback().await.unwrap();
    until_closed(&instance).await;
    signal(&[closing], Signal::CONT);
}

#[tokio::test]
async fn a_connection_whose_transaction_ends_is_kept() {
    let stage = Stage::start().await;
    let instance = serve(&stage, &[("DATABASE_MAX_CONNECTIONS", "1"), ("DB_MAX_LOADS", "1")]).await;
    let sessions = "select coalesce(array_agg(pid order by pid), '{}') from pg_stat_activity
        where application_name = 'service'";
    let sessions = async || sqlx::query_scalar::<_, Vec<i32>>(sessions).fetch_one(&stage.pool).await.unwrap();
    instance.put("A", 1).await;
    let before = sessions().await;
    assert_eq!(before.len(), 2, "that of requests, and that of the probes");
    for quantity in 2..12 {
        assert_eq!(instance.put("A", quantity).await.status, 200);
    }
    assert_eq!(sessions().await, before);
}
