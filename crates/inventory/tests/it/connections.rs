//! Connections that ask for nothing: half a request head, or none.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{
    stage::{Answer, Instance, Stage, until},
    support::{figure, within},
    wire::exchange,
};

const HALF_A_HEAD: &[u8] = b"GET /stock/A HTTP/1.1\r\nhost: x\r\nx-slow: ";

async fn connect(address: &str, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

/// Waits until the other side ends the connection, and returns all that it wrote before.
async fn ended(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset also ends the connection.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut said)).await.expect("the connection is ended");
    said
}

/// A connection whose first request was answered.
async fn idle(address: &str) -> TcpStream {
    let mut stream = connect(address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut said = Vec::new();
    while !said.ends_with(b"}") {
        assert!(stream.read_buf(&mut said).await.unwrap() > 0, "{}", String::from_utf8_lossy(&said));
    }
    stream
}

fn ops(instance: &Instance) -> &str {
    instance.ops.strip_prefix("http://").unwrap()
}

#[tokio::test]
async fn half_sent_heads_and_idle_connections_are_ended_on_both_ports_and_hinder_nobody() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("HEADER_TIMEOUT", "2s")]).await;
    let (public, operators) = (instance.authority(), ops(&instance));
    let opened = Instant::now();
    let mut streams = join_all((0..250).map(|_| connect(public, HALF_A_HEAD))).await;
    streams.extend(join_all((0..50).map(|_| connect(operators, HALF_A_HEAD))).await);
    streams.extend(join_all((0..10).map(|_| idle(public))).await);
    streams.extend(join_all((0..10).map(|_| connect(public, b""))).await);
    assert_eq!(instance.put("A", 1).await.status, StatusCode::CREATED);
    join_all(streams.into_iter().map(ended)).await;
    figure(&format!("320 connections that ask for nothing were ended after {:?}", opened.elapsed()));
    // The connection of the PUT has been idle as long as the others and may be ended now, so use a new one.
    let request = b"GET /stock/A HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(public, request).await.status, 200);
}

#[tokio::test]
async fn more_connections_than_allowed_wait_and_leave_the_operators_alone() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("HEADER_TIMEOUT", "3s"), ("MAX_CONNECTIONS", "20")]).await;
    let held = join_all((0..20).map(|_| connect(instance.authority(), HALF_A_HEAD))).await;
    until("all places are taken", async || instance.log().contains("raise MAX_CONNECTIONS")).await;
    let (put, ()) = tokio::join!(instance.put("A", 1), async {
        let health = Answer::to(instance.admin(Method::GET, "/healthz")).await;
        assert_eq!(health.status, StatusCode::OK);
        assert!(health.took < Duration::from_secs(2), "{:?}", health.took);
    });
    assert_eq!(put.status, StatusCode::CREATED, "the PUT gets a place when the others time out");
    assert!(put.took > Duration::from_millis(500), "the PUT did not wait for a place: {:?}", put.took);
    join_all(held.into_iter().map(ended)).await;
}

#[tokio::test]
async fn more_connections_are_taken_than_the_soft_limit_of_open_files_allows() {
    let stage = Stage::start().await;
    let instance = stage.serve_under("-Sn 128").await;
    let held = join_all((0..200).map(|_| idle(instance.authority()))).await;
    assert_eq!(instance.put("A", 1).await.status, StatusCode::CREATED);
    let log = instance.log();
    assert!(!log.contains("no connection can be taken") && !log.contains("ulimit"), "{log}");
    drop(held);
}

#[tokio::test]
async fn a_hard_limit_of_open_files_that_is_too_low_is_named_with_its_remedy() {
    let stage = Stage::start().await;
    let instance = stage.serve_under("-n 512").await;
    let log = instance.log();
    for words in ["512", "`ulimit -n`", "MAX_CONNECTIONS"] {
        assert!(log.contains(words), "`{words}`: {log}");
    }
    assert_eq!(instance.put("A", 1).await.status, StatusCode::CREATED, "it serves all the same");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_loses_its_connection() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("HEADER_TIMEOUT", "1s"), ("MAX_CONNECTIONS", "1")]).await;
    // More than the buffers of both sides hold.
    let requests = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500);
    let unread = connect(instance.authority(), &requests).await;
    let next = exchange(instance.authority(), b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let answer = timeout(Duration::from_secs(20), next).await.expect("the only connection is free again");
    assert_eq!(answer.status, StatusCode::OK);
    drop(unread);
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let request = |filler: usize| {
        let filler = "x".repeat(filler);
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-filler: {filler}\r\n\r\n")
    };
    for address in [instance.authority(), ops(&instance)] {
        assert_eq!(exchange(address, request(30_000).as_bytes()).await.status, 200);
        assert_eq!(exchange(address, request(40_000).as_bytes()).await.status, 431);
    }
}

#[tokio::test]
async fn a_head_that_never_ends_takes_less_than_four_times_its_size() {
    const CLIENTS: u64 = 400;
    const SIZE: u64 = 30_000;
    let stage = Stage::start().await;
    let instance = stage.serve(&[("CACHE_WARM_KEYS", "0")]).await;
    let memory = async || {
        let page = instance.metrics().await;
        let line =
            page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap().to_owned();
        line.parse::<u64>().unwrap()
    };
    let before = memory().await;
    let sent = [HALF_A_HEAD, "x".repeat(usize::try_from(SIZE).unwrap()).as_bytes()].concat();
    let held = join_all((0..CLIENTS).map(|_| connect(instance.authority(), &sent))).await;
    let taken = std::cell::Cell::new(0);
    until("the heads are read", async || {
        let last = taken.replace(memory().await.saturating_sub(before));
        taken.get() > CLIENTS * SIZE && taken.get() == last
    })
    .await;
    figure(&format!("{} bytes for each head of {SIZE}", taken.get() / CLIENTS));
    assert!(taken.get() < CLIENTS * SIZE * 4, "{} bytes each", taken.get() / CLIENTS);
    drop(held);
}

#[tokio::test]
async fn a_shutdown_waits_for_requests_and_not_for_connections() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[("STATEMENT_TIMEOUT", "5s")]).await;
    instance.put("A", 10).await;
    let address = instance.authority().to_owned();
    let mut held = join_all((0..100).map(|_| connect(&address, HALF_A_HEAD))).await;
    held.extend(join_all((0..10).map(|_| idle(&address))).await);
    for stream in join_all((0..10).map(|_| idle(&address))).await {
        let mut stream = stream;
        stream.write_all(HALF_A_HEAD).await.unwrap();
        held.push(stream);
    }
    let blocker = stage.hold_row().await;
    let write = instance.adjust("A", -1);
    let stop = async {
        stage.until_one_waits_for_a_row().await;
        instance.terminate();
        join_all(held.into_iter().map(ended)).await;
        blocker.rollback().await.unwrap();
        Instant::now()
    };
    let (written, free) = tokio::join!(write, stop);
    assert_eq!(written.status, StatusCode::OK, "{written:?}");
    assert_eq!(instance.ended().await.code(), Some(0), "{}", instance.log());
    figure(&format!("ended {:?} after its last request could", free.elapsed()));
    assert!(free.elapsed() < Duration::from_secs(10), "{:?}", free.elapsed());
}

#[tokio::test]
async fn a_balancer_that_polls_readiness_loses_nothing_in_a_shutdown() {
    let stage = Stage::start().await;
    // Redis may be slow on a busy machine, and the test must not count refusals for that as lost requests.
    let mut leaving = stage
        .serve(&[("SHUTDOWN_DELAY", "8s"), ("REDIS_TIMEOUT", "5s"), ("LOCK_LEASE", "15s"), ("RUST_LOG", "warn")])
        .await;
    leaving.put("A", 1_000_000).await;
    let staying = stage.serve(&[("REDIS_TIMEOUT", "5s"), ("LOCK_LEASE", "15s")]).await;
    for instance in [&leaving, &staying] {
        until("it is ready", async || instance.get("/readyz").await.status == StatusCode::OK).await;
    }
    let routed = std::cell::Cell::new(true);
    let answered = std::cell::Cell::new(0_u32);
    let poll = async {
        while Answer::to(leaving.request(Method::GET, "/readyz")).await.status == StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // A balancer believes the second probe.
        tokio::time::sleep(Duration::from_millis(100)).await;
        routed.set(false);
    };
    let client = async |n: u32| {
        while routed.get() {
            let instance = if n.is_multiple_of(2) { &leaving } else { &staying };
            let answer = if n < 4 { instance.get("/stock/A").await } else { instance.adjust("A", -1).await };
            assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
            answered.set(answered.get() + 1);
        }
    };
    let stop = async {
        within(Duration::from_secs(20), "the load runs", async || answered.get() > 100).await;
        leaving.terminate();
    };
    tokio::join!(poll, stop, join_all((0..8).map(client)));
    let early = leaving.get("/stock/A").await;
    assert_eq!((early.status, early.header("connection")), (StatusCode::OK, "close"), "the port is open still");
    figure(&format!("{} requests answered, none lost", answered.get()));
    assert_eq!(leaving.ended().await.code(), Some(0), "{}", leaving.log());
}
