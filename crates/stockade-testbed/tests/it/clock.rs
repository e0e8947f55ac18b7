use std::time::Duration;

use stockade_testbed::{Error, RedisServer};

const HOUR: Duration = Duration::from_secs(3_600);

/// Seconds by the server's clock.
async fn time(redis: &RedisServer) -> i64 {
    let time = redis.command(&["TIME"]).await.unwrap();
    time.lines().next().unwrap().parse().unwrap()
}

/// How far the server's clock is ahead, in whole minutes, which a busy machine does not change.
async fn minutes_ahead(redis: &RedisServer, machine: &RedisServer) -> i64 {
    (time(redis).await - time(machine).await + 30).div_euclid(60)
}

#[tokio::test]
async fn a_step_of_a_clock_is_seen_by_its_server_alone_and_outlasts_a_restart() {
    let machine = RedisServer::start().await.unwrap();
    let redis = RedisServer::builder().own_clock().start().await.unwrap();
    assert_eq!(minutes_ahead(&redis, &machine).await, 0);
    redis.step_clock_forwards(HOUR).unwrap();
    assert_eq!(minutes_ahead(&redis, &machine).await, 60);
    redis.step_clock_backwards(HOUR * 3).unwrap();
    assert_eq!(minutes_ahead(&redis, &machine).await, -120);
    redis.restart().await.unwrap();
    assert_eq!(minutes_ahead(&redis, &machine).await, -120);
    redis.step_clock_forwards(HOUR * 2).unwrap();
    assert_eq!(minutes_ahead(&redis, &machine).await, 0);
}

#[tokio::test]
async fn a_step_ahead_ends_what_should_have_lived_on() {
    let redis = RedisServer::builder().own_clock().start().await.unwrap();
    redis.command(&["SET", "key", "value", "EX", "600"]).await.unwrap();
    assert_eq!(redis.command(&["EXISTS", "key"]).await.unwrap(), "1");
    redis.step_clock_forwards(HOUR).unwrap();
    assert_eq!(redis.command(&["EXISTS", "key"]).await.unwrap(), "0");
}

#[tokio::test]
async fn scripts_and_expiry_agree_on_a_stepped_clock() {
    let redis = RedisServer::builder().own_clock().start().await.unwrap();
    redis.step_clock_backwards(HOUR).unwrap();
    let script = "local now = redis.call('TIME')[1]; redis.call('SET', KEYS[1], '', 'EX', 600); \
                  return redis.call('EXPIRETIME', KEYS[1]) - now";
    let lives: i64 = redis.command(&["EVAL", script, "1", "key"]).await.unwrap().parse().unwrap();
    assert!((599..=601).contains(&lives), "{lives}");
}

#[tokio::test]
async fn the_machines_clock_is_not_touched() {
    let redis = RedisServer::start().await.unwrap();
    assert!(matches!(redis.step_clock_forwards(HOUR), Err(Error::NoClock)));
}
