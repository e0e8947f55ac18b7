use stockade_testbed::{Error, RedisServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[tokio::test]
async fn a_password_is_needed_and_known_to_the_testbed_also_after_a_restart() {
    let redis = RedisServer::builder().password("s3cret").start().await.unwrap();
    assert_eq!(redis.url(), format!("redis://:s3cret@127.0.0.1:{}", redis.port()));
    assert!(!format!("{redis:?}").contains("s3cret"), "{redis:?}");
    redis.restart().await.unwrap();
    assert_eq!(redis.command(&["PING"]).await.unwrap(), "PONG");
    let mut stranger = TcpStream::connect(redis.addr()).await.unwrap();
    stranger.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    stranger.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"-NOAUTH");
}

#[tokio::test]
async fn a_replica_has_what_its_primary_had_when_its_start_returns() {
    let primary = RedisServer::builder().password("s3cret").start().await.unwrap();
    primary.command(&["SET", "key", "value"]).await.unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().await.unwrap();
    assert_eq!(replica.command(&["GET", "key"]).await.unwrap(), "value");
    let refused = replica.command(&["SET", "key", "other"]).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { text, .. } if text.starts_with("READONLY")), "{refused}");
    primary.kill().await.unwrap();
    replica.restart().await.unwrap();
    assert_eq!(replica.command(&["PING"]).await.unwrap(), "PONG");
}

#[tokio::test]
async fn many_servers_know_nothing_of_each_other() {
    let servers = RedisServer::start_many(3).await.unwrap();
    assert_eq!(servers.len(), 3);
    servers[0].command(&["SET", "key", "value"]).await.unwrap();
    for other in &servers[1..] {
        assert_ne!(other, &servers[0]);
        assert_eq!(other.command(&["DBSIZE"]).await.unwrap(), "0");
    }
}
