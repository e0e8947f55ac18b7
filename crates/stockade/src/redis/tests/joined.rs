//! Calls of a script that become one command.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use stockade_testbed::RedisServer;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    append,
    crowd::{connected, patient},
    list,
};
use crate::redis::{Attempt, Joins, Link, LinkError, Script, evalsha, script};

pub(super) static EACH: Script = script!("each", "scripts/each.lua");
const JOINS: Joins = Joins { op: EACH.name, keys: 1, shared: 1, own: 1 };
/// Enough for several commands of as many calls as one takes.
const CALLS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(30);

fn each(link: &Link, key: &str, value: &str) -> Attempt {
    let (key, args) = (key.to_owned(), vec![b"of-".to_vec(), value.as_bytes().to_vec()]);
    link.attempt(&EACH, move |sha| evalsha(sha, vec![key], args), PATIENCE, Some(JOINS))
}

/// A link with room for many commands, since a crowd has widened its window. A new one has less than calls gather from.
async fn wide(server: &RedisServer) -> Link {
    widened(connected(server).await, server).await
}

async fn widened(link: Link, server: &RedisServer) -> Link {
    join_all((0..2 * CALLS).map(|_| append(&link, "before"))).await;
    server.command(&["DEL", "list"]).await.unwrap();
    link
}

#[tokio::test]
async fn calls_that_come_together_are_one_command_and_each_has_its_own_reply() {
    let server = RedisServer::start().await.unwrap();
    let link = wide(&server).await;
    let before = server.calls_of("evalsha").await.unwrap();
    // Every tenth is refused; the others are longer by one each time.
    let called: Vec<_> = (0..CALLS)
        .map(|number| match number % 10 {
            9 => each(&link, "list", "broken").reply,
            _ => each(&link, "list", &number.to_string()).reply,
        })
        .collect();
    let mut length = 0;
    for (number, reply) in join_all(called).await.into_iter().enumerate() {
        if number % 10 == 9 {
            assert!(matches!(&reply, Err(LinkError::Refused { code }) if code == "BROKEN"), "{number}: {reply:?}");
        } else {
            length += 1;
            assert_eq!(reply.unwrap(), Value::Int(length), "{number}");
        }
    }
    let took = server.calls_of("evalsha").await.unwrap() - before;
    // How many come together depends on the window, which is narrow while the machine is slow.
    assert!(took < CALLS as u64, "{took} commands for {CALLS} calls");
}

#[tokio::test]
async fn calls_that_waited_for_their_places_come_together_too() {
    let server = RedisServer::start().await.unwrap();
    // No reply is slow beside this time-out, so the window stays wide.
    let link = widened(patient(&server).await, &server).await;
    let filling = 2 * CALLS;
    let before = server.calls_of("evalsha").await.unwrap() + filling as u64;
    let filling: Vec<_> = (0..filling).map(|_| append(&link, "before")).collect();
    let called: Vec<_> = (0..CALLS).map(|number| each(&link, "list", &number.to_string()).reply).collect();
    for reply in join_all(filling).await {
        reply.unwrap();
    }
    for reply in join_all(called).await {
        reply.unwrap();
    }
    let took = server.calls_of("evalsha").await.unwrap() - before;
    assert!(took <= CALLS as u64 / 4, "{took} commands for {CALLS} calls");
}

#[tokio::test]
async fn calls_keep_their_order_beside_commands_that_go_alone() {
    let server = RedisServer::start().await.unwrap();
    let link = wide(&server).await;
    let mut called = Vec::new();
    for number in 0..CALLS {
        // Runs of different lengths, some of a single call.
        called.push(match number % 7 % 3 {
            0 => Box::pin(append(&link, &format!("alone-{number}"))),
            _ => each(&link, "list", &number.to_string()).reply,
        });
    }
    for reply in join_all(called).await {
        reply.unwrap();
    }
    let numbers = list(&server).await.into_iter().map(|word| word.rsplit('-').next().unwrap().parse().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    assert_eq!(numbers, (0..CALLS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_caller_that_gives_up_takes_nobodys_reply() {
    let server = RedisServer::start().await.unwrap();
    let link = wide(&server).await;
    let called: Vec<_> = (0..CALLS).map(|number| each(&link, "list", &number.to_string())).collect();
    let (mut kept, mut sent) = (Vec::new(), Vec::new());
    for (number, attempt) in called.into_iter().enumerate() {
        if number % 2 == 0 { kept.push(attempt.reply) } else { sent.push(attempt.receipt) }
    }
    for reply in join_all(kept).await {
        reply.unwrap();
    }
    let sent = sent.iter().filter(|receipt| receipt.sent_at().is_some()).count();
    append(&link, "after").await.unwrap();
    let list = list(&server).await;
    assert_eq!(list.len(), CALLS / 2 + sent + 1, "what was taken back never came, and all else did");
}

/// Calls on tasks, so that callers already wait when their calls are sent.
fn callers(link: &Link) -> JoinSet<Result<Value, LinkError>> {
    let mut callers = JoinSet::new();
    for number in 0..CALLS {
        let link = link.clone();
        callers.spawn(async move { each(&link, "list", &number.to_string()).reply.await });
    }
    callers
}

#[tokio::test]
async fn a_caller_that_already_waits_is_woken_by_its_reply() {
    let server = RedisServer::start().await.unwrap();
    // With this time-out a caller that is not woken looks for its reply long after the limit.
    let link = widened(patient(&server).await, &server).await;
    let replies = timeout(PATIENCE / 3, callers(&link).join_all()).await.expect("not woken");
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
}

#[tokio::test]
async fn a_frozen_server_costs_calls_that_gather_one_time_out() {
    let server = RedisServer::start().await.unwrap();
    let link = wide(&server).await;
    server.pause().unwrap();
    let asked = Instant::now();
    let replies = callers(&link).join_all().await;
    // A busy machine may need longer than the quarter of a second.
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    for reply in replies {
        assert!(matches!(reply, Err(LinkError::Timeout | LinkError::Unsent { silent: true })), "{reply:?}");
    }
    server.resume().unwrap();
}
