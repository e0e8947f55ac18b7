use std::{io, time::Duration};

use stockade_testbed::{Fault, Proxy, RedisServer, eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

const SHORT: Duration = Duration::from_millis(150);

async fn proxied() -> (RedisServer, Proxy, TcpStream) {
    let redis = RedisServer::start().await.unwrap();
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let client = TcpStream::connect(proxy.addr()).await.unwrap();
    (redis, proxy, client)
}

async fn send(client: &mut TcpStream, command: &str) {
    client.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
}

async fn receive(client: &mut TcpStream) -> io::Result<String> {
    let mut bytes = [0; 256];
    let count = client.read(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

async fn ask(client: &mut TcpStream, command: &str) -> String {
    send(client, command).await;
    receive(client).await.unwrap()
}

#[tokio::test]
async fn without_a_fault_bytes_and_ends_pass_both_ways() {
    let (_redis, proxy, mut client) = proxied().await;
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
    assert_eq!(ask(&mut client, "QUIT").await, "+OK\r\n");
    assert_eq!(receive(&mut client).await.unwrap(), "");
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_hole_keeps_connections_and_delivers_when_it_closes() {
    let (redis, proxy, mut client) = proxied().await;
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
    proxy.set(Fault::Hole);
    send(&mut client, "SET key value").await;
    let mut late = TcpStream::connect(proxy.addr()).await.unwrap();
    send(&mut late, "PING").await;
    assert!(timeout(SHORT, receive(&mut client)).await.is_err());
    assert!(timeout(SHORT, receive(&mut late)).await.is_err());
    assert_eq!(redis.command(&["EXISTS", "key"]).await.unwrap(), "0");
    proxy.set(Fault::None);
    assert_eq!(receive(&mut client).await.unwrap(), "+OK\r\n");
    assert_eq!(receive(&mut late).await.unwrap(), "+PONG\r\n");
}

#[tokio::test]
async fn a_delay_holds_for_each_way_and_does_not_add_up_over_a_pipeline() {
    let (_redis, proxy, mut client) = proxied().await;
    proxy.set(Fault::Delay(Duration::from_millis(100)));
    let start = Instant::now();
    for _ in 0..20 {
        send(&mut client, "PING").await;
        tokio::task::yield_now().await;
    }
    let mut replies = String::new();
    while replies.len() < 20 * 7 {
        replies.push_str(&receive(&mut client).await.unwrap());
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}: one after the other they take 4 s");
}

#[tokio::test]
async fn a_reset_breaks_open_and_new_connections() {
    let (_redis, proxy, mut client) = proxied().await;
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
    proxy.set(Fault::Reset);
    assert_eq!(receive(&mut client).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let refused = async {
        let mut late = TcpStream::connect(proxy.addr()).await?;
        late.read_u8().await
    };
    assert_eq!(refused.await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    proxy.set(Fault::None);
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn resetting_connections_spares_new_ones() {
    let (_redis, proxy, mut client) = proxied().await;
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
    proxy.reset_connections();
    assert_eq!(receive(&mut client).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn dropped_replies_belong_to_commands_that_ran() {
    let (redis, proxy, mut client) = proxied().await;
    assert_eq!(ask(&mut client, "PING").await, "+PONG\r\n");
    proxy.set(Fault::DropReplies);
    send(&mut client, "INCR counter").await;
    eventually("the command ran", async || redis.command(&["GET", "counter"]).await.unwrap() == "1").await;
    assert!(timeout(SHORT, receive(&mut client)).await.is_err());
    proxy.set(Fault::None);
    // The client could take a later reply for the one that was dropped, so the proxy closes the connection.
    assert_eq!(receive(&mut client).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_url_keeps_all_but_host_and_port() {
    let (_redis, proxy, _client) = proxied().await;
    let addr = proxy.addr();
    assert_eq!(proxy.url_for("redis://127.0.0.1:1"), format!("redis://{addr}"));
    assert_eq!(proxy.url_for("postgres://u:p@h:1/db?x=1"), format!("postgres://u:p@{addr}/db?x=1"));
}
