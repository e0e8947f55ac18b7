use std::time::Duration;

use stockade_testbed::{Error, RedisServer, eventually};
use tokio::time::timeout;

use crate::support::is_alive;

#[tokio::test]
async fn a_private_redis_answers_and_keeps_nothing_on_disk() {
    let redis = RedisServer::builder().arg("--maxmemory-policy").arg("allkeys-lru").start().await.unwrap();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    assert_eq!(redis.command(&["PING"]).await.unwrap(), "PONG");
    assert_eq!(redis.command(&["CONFIG", "GET", "maxmemory-policy"]).await.unwrap(), "maxmemory-policy\nallkeys-lru");
    assert_eq!(redis.command(&["CONFIG", "GET", "save"]).await.unwrap(), "save\n");
    assert!(redis.command(&["INFO"]).await.unwrap().contains(&format!("process_id:{}\r", redis.pid())));
    let refused = redis.command(&["NOSUCH"]).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { text, .. } if text.contains("unknown command")), "{refused}");
}

#[tokio::test]
async fn a_paused_redis_accepts_and_does_not_answer_until_it_is_resumed() {
    let redis = RedisServer::start().await.unwrap();
    redis.pause().unwrap();
    let asked = redis.command(&["SET", "key", "value"]);
    tokio::pin!(asked);
    assert!(timeout(Duration::from_millis(200), &mut asked).await.is_err());
    tokio::net::TcpStream::connect(redis.addr()).await.unwrap();
    redis.resume().unwrap();
    assert_eq!(asked.await.unwrap(), "OK");
}

#[tokio::test]
async fn a_restarted_redis_has_the_same_port_and_is_empty() {
    let redis = RedisServer::start().await.unwrap();
    redis.command(&["SET", "key", "value"]).await.unwrap();
    let (url, first) = (redis.url(), redis.pid());
    redis.kill().await.unwrap();
    assert!(!is_alive(first));
    assert!(redis.command(&["PING"]).await.is_err());
    assert!(matches!(redis.pause(), Err(Error::NotRunning(_))));
    redis.restart().await.unwrap();
    assert_eq!(redis.url(), url);
    assert_ne!(redis.pid(), first);
    assert_eq!(redis.command(&["DBSIZE"]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_paused_redis_can_be_killed_and_dropped() {
    let redis = RedisServer::start().await.unwrap();
    redis.pause().unwrap();
    redis.restart().await.unwrap();
    redis.pause().unwrap();
    let pid = redis.pid();
    drop(redis);
    eventually("the server is gone", async || !is_alive(pid)).await;
}

#[tokio::test]
async fn a_redis_that_can_not_start_says_why() {
    let error = RedisServer::builder().arg("--maxmemory-policy").arg("nonsense").start().await.unwrap_err().to_string();
    assert!(error.contains("--maxmemory-policy nonsense"), "{error}");
    assert!(error.contains("FATAL CONFIG FILE ERROR"), "{error}");
}

#[tokio::test]
async fn a_redis_whose_port_is_taken_is_not_mistaken_for_the_other() {
    let first = RedisServer::start().await.unwrap();
    let error = RedisServer::builder().arg("--port").arg(first.port().to_string()).start().await.unwrap_err();
    assert!(matches!(&error, Error::Died { log, .. } if log.contains("already in use")), "{error}");
}
