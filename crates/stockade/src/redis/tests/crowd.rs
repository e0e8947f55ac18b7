//! More commands at once than a connection takes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join, join_all};
use redis::Value;
use stockade_testbed::RedisServer;
use tokio::time::Instant;

use super::{APPEND, Link, LinkError, Redis, append, list, open, until, up};
use crate::redis::{Attempt, evalsha};

/// More than any window, and fewer than a test has time for.
const CROWD: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(30);

fn attempt(link: &Link, value: &str, wait: Duration) -> Attempt {
    let value = value.as_bytes().to_vec();
    link.attempt(&APPEND, move |sha| evalsha(sha, vec!["list".into()], vec![value]), wait, None)
}

pub(super) async fn connected(server: &RedisServer) -> Link {
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    link
}

/// A link whose time-out is longer than the server is stopped.
pub(super) async fn patient(server: &RedisServer) -> Link {
    let redis = Redis::builder(server.url()).command_timeout(PATIENCE).connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
    link
}

/// A server that `DEBUG SLEEP` can delay.
pub(crate) async fn leisurely() -> RedisServer {
    RedisServer::builder().arg("--enable-debug-command").arg("yes").start().await.unwrap()
}

/// A hundred commands of 15 ms each: together they take six command time-outs. A server writes its replies when it has
/// run all that it has read, so each command has so many bytes that the server reads it alone.
pub(crate) fn slow(link: &Link) -> Vec<impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<>> {
    let mut command = redis::cmd("DEBUG");
    command.arg("SLEEP").arg(format!("0.015{:0<20000}", ""));
    (0..100).map(|_| link.command("debug", command.clone())).collect()
}

#[tokio::test]
async fn a_connection_that_answers_slowly_is_no_failure() {
    let server = leisurely().await;
    let link = connected(&server).await;
    for reply in join_all(slow(&link)).await {
        reply.unwrap();
    }
    assert!(link.breaker().refusing().is_none());
    append(&link, "after").await.unwrap();
}

#[tokio::test]
async fn a_caller_that_does_not_look_keeps_nobody_waiting() {
    let server = RedisServer::start().await.unwrap();
    let link = connected(&server).await;
    let unseen: Vec<_> = (0..CROWD).map(|number| append(&link, &number.to_string())).collect();
    append(&link, "seen").await.unwrap();
    let attempts: Vec<_> = (0..CROWD).map(|_| attempt(&link, "attempt", PATIENCE)).collect();
    append(&link, "seen").await.unwrap();
    assert_eq!(list(&server).await.len(), 2 * CROWD + 2);
    drop((unseen, attempts));
}

#[tokio::test]
async fn an_attempt_that_was_not_sent_is_taken_back_and_one_that_was_is_not() {
    let server = RedisServer::start().await.unwrap();
    let link = patient(&server).await;
    server.pause().unwrap();
    let first = attempt(&link, "first", PATIENCE);
    let attempts: Vec<_> = (0..CROWD).map(|_| attempt(&link, "crowd", PATIENCE)).collect();
    let last = attempt(&link, "last", PATIENCE);
    // A command is also sent in its place if nobody waits for its reply.
    drop(append(&link, "kept"));
    let receipts: Vec<_> = attempts.iter().map(|attempt| attempt.receipt.clone()).collect();
    let (one, other) = (first.receipt.clone(), last.receipt.clone());
    drop((first, attempts, last));
    server.resume().unwrap();
    let sent = receipts.iter().filter(|receipt| receipt.sent_at().is_some()).count();
    assert!(one.sent_at().is_some() && other.sent_at().is_none() && sent < CROWD / 2, "{sent}");
    append(&link, "after").await.unwrap();
    let list = list(&server).await;
    assert_eq!(list.len(), sent + 3, "{list:?}");
    assert!(list.starts_with(&["first".to_owned()]) && list.ends_with(&["kept".to_owned(), "after".to_owned()]));
}

#[tokio::test]
async fn what_undoes_goes_ahead_of_the_crowd_and_renewals_ahead_of_both() {
    let server = RedisServer::start().await.unwrap();
    let link = patient(&server).await;
    server.pause().unwrap();
    let crowd: Vec<_> = (0..CROWD).map(|_| append(&link, "crowd")).collect();
    let undo = |sha: &str| evalsha(sha, vec!["list".into()], vec![b"undoing".to_vec()]);
    let undoing: Vec<_> = (0..CROWD).map(|_| link.call_regardless(&APPEND, &undo, None)).collect();
    // Renewals have no connection of their own yet.
    let renewal = link.call_renewal(&APPEND, vec!["list".into()], vec![b"renewal".to_vec()]);
    server.resume().unwrap();
    renewal.await.unwrap();
    for reply in undoing {
        reply.await.unwrap();
    }
    for reply in crowd {
        reply.await.unwrap();
    }
    let list = list(&server).await;
    let place = |of: &str| list.iter().position(|value| value == of).unwrap();
    let last = |of: &str| list.iter().rposition(|value| value == of).unwrap();
    assert!(place("renewal") <= place("undoing") && place("undoing") < CROWD / 2, "{list:?}");
    assert_eq!((last("undoing") - place("undoing"), last("crowd")), (CROWD - 1, 2 * CROWD), "{list:?}");
}

#[tokio::test]
async fn who_waits_before_a_frozen_server_is_refused_with_those_before_him() {
    let server = RedisServer::start().await.unwrap();
    let link = connected(&server).await;
    server.pause().unwrap();
    let asked = Instant::now();
    let attempts = (0..CROWD).map(|_| attempt(&link, "never", PATIENCE).reply);
    let refused = join_all(attempts).await;
    // A busy machine may need longer than the quarter of a second.
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    let unsent = refused.iter().filter(|reply| matches!(reply, Err(LinkError::Unsent { silent: true }))).count();
    let timed_out = refused.iter().filter(|reply| matches!(reply, Err(LinkError::Timeout))).count();
    assert!(unsent > CROWD / 2 && unsent + timed_out == CROWD, "{unsent} {timed_out}");
    assert!(matches!(append(&link, "refused").await, Err(LinkError::Open { .. })));
    server.resume().unwrap();
    until("the sent ones answered", || link.breaker().refusing().is_none()).await;
    while append(&link, "after").await.is_err() {
        assert!(asked.elapsed() < PATIENCE, "not recovered");
    }
    assert_eq!(list(&server).await.len(), timed_out + 1, "what was refused unsent never comes");
}

#[tokio::test]
async fn an_attempt_without_a_place_in_time_is_no_failure_of_the_server() {
    let server = leisurely().await;
    let link = connected(&server).await;
    let before = slow(&link);
    let made = Arc::new(AtomicBool::new(false));
    let making = Arc::clone(&made);
    let make = move |sha: &str| {
        making.store(true, Ordering::SeqCst);
        evalsha(sha, vec!["list".into()], Vec::new())
    };
    let brief = link.attempt(&APPEND, make, Duration::from_millis(1), None);
    // Five more, which as failures would open the breaker.
    let more = join_all((0..5).map(|_| attempt(&link, "crowd", Duration::from_millis(1)).reply));
    let (refused, more) = join(brief.reply, more).await;
    for refused in more.into_iter().chain([refused]) {
        assert!(matches!(refused, Err(LinkError::Unsent { silent: false })), "{refused:?}");
    }
    assert!(brief.receipt.sent_at().is_none() && !made.load(Ordering::SeqCst), "it was made before it was sent");
    assert!(link.breaker().refusing().is_none());
    for reply in join_all(before).await {
        reply.unwrap();
    }
    assert!(list(&server).await.is_empty());
}

#[tokio::test]
async fn who_waits_on_a_connection_that_ends_is_told() {
    let server = RedisServer::start().await.unwrap();
    let link = connected(&server).await;
    server.pause().unwrap();
    let waiting: Vec<_> = (0..CROWD).map(|_| append(&link, "never")).collect();
    server.kill().await.unwrap();
    let lost = join_all(waiting).await;
    let down = lost.iter().filter(|reply| matches!(reply, Err(LinkError::Down | LinkError::Unsent { .. }))).count();
    assert!(down > CROWD / 2, "{down}");
}
