//! The link against a real server.

pub(crate) mod crowd;
mod joined;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
mod unfit;
pub(crate) mod until;

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, try_join_all},
};
use redis::Value;
use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::time::{Instant, sleep, timeout};

use self::until::{eventually, until};
use super::{ConnectError, Handshake, Link, LinkError, LinkEvents, Redis, Script, Up};

static APPEND: Script = Script { name: "append", text: "return redis.call('RPUSH', KEYS[1], ARGV[1])" };
static TELL: Script = Script { name: "tell", text: "return redis.call('PUBLISH', ARGV[1], ARGV[2])" };
static SCRIPTS: &[&Script] = &[&APPEND, &TELL, &joined::EACH];

#[derive(Default)]
struct Seen {
    messages: Mutex<Vec<String>>,
    ups: Mutex<Vec<Up>>,
    closed: AtomicUsize,
}

struct Events(Arc<Seen>);

impl LinkEvents for Events {
    fn message(&self, channel: &str, payload: &[u8]) {
        self.0.messages.lock().unwrap().push(format!("{channel} {}", String::from_utf8_lossy(payload)));
    }

    fn prepare<'a>(&'a self, _up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async {
            handshake.call(&APPEND, &["prepared".into()], &[b"1".to_vec()]).await?;
            Ok(())
        })
    }

    fn opened(&self, up: &Up) {
        self.0.ups.lock().unwrap().push(up.clone());
    }

    fn closed(&self) {
        self.0.closed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn open(redis: &Redis) -> (Link, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    (Link::new(redis, "lock", vec!["inbox".into()], SCRIPTS, Arc::new(Events(Arc::clone(&seen)))).started(), seen)
}

async fn up(link: &Link) {
    until("an open link", || link.is_up()).await;
}

/// Waits for `times` more attempts to connect. Each attempt sends HELLO, which the testbed does not.
async fn until_tried(server: &RedisServer, times: u64) {
    let greetings = async || server.calls_of("hello").await.unwrap();
    let enough = greetings().await + times;
    eventually("another attempt", async || greetings().await >= enough).await;
}

fn append(link: &Link, value: &str) -> impl Future<Output = Result<Value, LinkError>> + Send + 'static + use<> {
    link.call(&APPEND, vec!["list".into()], vec![value.as_bytes().to_vec()])
}

async fn list(server: &RedisServer) -> Vec<String> {
    let text =
        server.command(&["EVAL", "return table.concat(redis.call('LRANGE', 'list', 0, -1), ' ')", "0"]).await.unwrap();
    text.split(' ').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_written_in_the_order_of_the_calls_and_dropped_ones_keep_their_place() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    let mut replies = Vec::new();
    for number in 0..2000 {
        let reply = append(&link, &number.to_string());
        if number % 3 == 0 {
            drop(reply);
        } else {
            replies.push(reply);
        }
    }
    for reply in replies.into_iter().rev() {
        reply.await.unwrap();
    }
    let expected: Vec<_> = (0..2000).map(|number: u32| number.to_string()).collect();
    assert_eq!(list(&server).await, expected);
}

#[tokio::test]
async fn the_time_of_each_command_is_counted_under_its_own_label() {
    // More labels than a connection keeps.
    const OPS: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = ::metrics::set_default_local_recorder(&recorder);
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    for times in 1..=2 {
        append(&link, "one").await.unwrap();
        for op in OPS {
            link.command(op, redis::cmd("PING")).await.unwrap();
        }
        let rendered = handle.render();
        for op in OPS.into_iter().chain(["append"]) {
            let counted = format!("stockade_redis_command_seconds_count{{op=\"{op}\"}} {times}");
            assert!(rendered.lines().any(|line| line == counted), "{counted}: {rendered}");
        }
    }
}

#[tokio::test]
async fn a_frozen_server_costs_one_time_out_then_the_breaker_refuses_and_all_recovers() {
    let server = RedisServer::start().await.unwrap();
    let (link, seen) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    append(&link, "before").await.unwrap();
    server.pause().unwrap();
    let mut quickest = Duration::MAX;
    for number in 0..5 {
        let asked = Instant::now();
        let error = append(&link, &format!("late{number}")).await.unwrap_err();
        assert!(matches!(error, LinkError::Timeout), "{error:?}");
        quickest = quickest.min(asked.elapsed());
    }
    assert!(quickest < Duration::from_millis(350), "{quickest:?}");
    let refused = append(&link, "refused").now_or_never();
    assert!(matches!(refused, Some(Err(LinkError::Open { .. }))), "{refused:?}");
    server.resume().unwrap();
    let thawed = Instant::now();
    while append(&link, "after").await.is_err() {
        assert!(thawed.elapsed() < Duration::from_secs(10), "not recovered");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(seen.ups.lock().unwrap().len(), 1, "the same connection");
    let expected = ["before", "late0", "late1", "late2", "late3", "late4", "after"];
    assert_eq!(list(&server).await, expected, "late commands stay in front");
}

#[tokio::test]
async fn a_connection_whose_reply_is_overdue_is_replaced() {
    let server = RedisServer::start().await.unwrap();
    let (link, seen) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    server.pause().unwrap();
    assert!(append(&link, "late").await.is_err());
    until("the connection given up", || !link.is_up()).await;
    assert!(matches!(append(&link, "down").await, Err(LinkError::Down)));
    server.resume().unwrap();
    let thawed = Instant::now();
    up(&link).await;
    assert!(thawed.elapsed() < Duration::from_secs(3), "{:?}", thawed.elapsed());
    append(&link, "again").await.unwrap();
    assert_eq!(link.generation(), 2);
    assert!(!seen.ups.lock().unwrap()[1].new_run);
}

#[tokio::test]
async fn a_restarted_empty_server_is_reported_as_a_new_run() {
    let server = RedisServer::start().await.unwrap();
    let (link, seen) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    server.kill().await.unwrap();
    until("the loss", || !link.is_up()).await;
    server.restart().await.unwrap();
    up(&link).await;
    append(&link, "again").await.unwrap();
    let ups = seen.ups.lock().unwrap().clone();
    assert!(!ups[0].new_run && ups[1].new_run && ups[0].run_id != ups[1].run_id);
    assert!(seen.closed.load(Ordering::SeqCst) >= 1);
}

#[tokio::test]
async fn a_server_absent_at_the_start_is_no_error_and_is_found_when_it_appears() {
    let server = RedisServer::start().await.unwrap();
    server.kill().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let (link, _) = open(&redis).await;
    assert!(matches!(append(&link, "x").await, Err(LinkError::Down)));
    server.restart().await.unwrap();
    up(&link).await;
    append(&link, "x").await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_delays_connect_by_one_time_out_only() {
    let server = RedisServer::start().await.unwrap();
    server.pause().unwrap();
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let asked = Instant::now();
        Redis::connect(server.url()).await.unwrap();
        quickest = quickest.min(asked.elapsed());
    }
    assert!(quickest < Duration::from_millis(400), "{quickest:?}");
    let redis = Redis::connect(server.url()).await.unwrap();
    server.resume().unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
}

#[tokio::test]
async fn passwords_are_checked_and_never_shown() {
    let server = RedisServer::start().await.unwrap();
    server.command(&["CONFIG", "SET", "requirepass", "s3cret"]).await.unwrap();
    let url = |password: &str| format!("redis://{password}127.0.0.1:{}", server.port());
    for wrong in ["", ":wrong-s3cret@", "nobody:wrong-s3cret@"] {
        let error = Redis::connect(url(wrong)).await.unwrap_err();
        assert!(matches!(error, ConnectError::Credentials), "{wrong}: {error:?}");
        assert!(!format!("{error:?} {error}").contains("s3cret"));
    }
    let builder = Redis::builder(url(":s3cret@"));
    assert!(!format!("{builder:?}").contains("s3cret"));
    let redis = builder.connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
    assert!(!format!("{redis:?} {link:?}").contains("s3cret"));
    let error = Redis::connect("redis://:s3cret@host:not-a-port/").await.unwrap_err();
    assert!(matches!(error, ConnectError::Config { .. }));
    assert!(!format!("{error:?} {error}").contains("s3cret"));
}

#[tokio::test]
async fn a_user_who_may_not_publish_connects_where_nothing_is_heard() {
    let server = RedisServer::start().await.unwrap();
    let rules = "on >password resetchannels ~* -@all +info +script|load +eval +evalsha +rpush";
    let words: Vec<_> = ["ACL", "SETUSER", "somebody", "reset"].into_iter().chain(rules.split(' ')).collect();
    server.command(&words).await.unwrap();
    let url = server.url().replace("redis://", "redis://somebody:password@");
    let redis = Redis::connect(url).await.unwrap();
    let link = Link::new(&redis, "lock", Vec::new(), SCRIPTS, Arc::new(Events(Arc::default()))).started();
    up(&link).await;
}

/// The owner of a link. Without it the link can't prepare connections.
struct Owner(Link);

struct Told(Weak<Owner>);

impl LinkEvents for Told {
    fn message(&self, _channel: &str, _payload: &[u8]) {}

    fn prepare<'a>(&'a self, _up: &'a Up, _handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async { self.0.upgrade().map(drop).ok_or(LinkError::Down) })
    }

    fn opened(&self, _up: &Up) {}

    fn closed(&self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_connects_only_when_what_it_belongs_to_is_there() {
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let owner = Arc::new_cyclic(|owner| {
        let link = Link::new(&redis, "lock", Vec::new(), SCRIPTS, Arc::new(Told(Weak::clone(owner))));
        // The owner is made only after another link had time to connect.
        let other = Link::new(&redis, "lock", Vec::new(), SCRIPTS, Arc::new(Events(Arc::default()))).started();
        let limit = Instant::now() + Duration::from_secs(10);
        while !other.is_up() && Instant::now() < limit {
            std::thread::yield_now();
        }
        Owner(link)
    });
    owner.0.start();
    owner.0.attempted().await;
    assert!(owner.0.is_up());
}

#[tokio::test]
async fn a_database_that_the_server_lacks_is_refused() {
    let server = RedisServer::start().await.unwrap();
    let error = Redis::connect(format!("{}/16", server.url())).await.unwrap_err();
    assert!(matches!(error, ConnectError::Database { database: 16 }), "{error:?}");
    let (link, _) = open(&Redis::connect(format!("{}/15", server.url())).await.unwrap()).await;
    up(&link).await;
}

#[tokio::test]
async fn a_server_that_may_evict_is_refused_unless_allowed() {
    let server = RedisServer::builder().arg("--maxmemory-policy").arg("allkeys-lru").start().await.unwrap();
    let error = Redis::connect(server.url()).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Evicts { policy } if policy == "allkeys-lru"), "{error:?}");
    let redis = Redis::builder(server.url()).allow_eviction().connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
}

#[tokio::test]
async fn an_evicting_server_that_appears_later_keeps_the_link_closed() {
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    let (link, seen) = open(&redis).await;
    until_tried(&server, 3).await;
    assert!(!link.is_up());
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.unwrap();
    up(&link).await;
    assert_eq!(seen.ups.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn flushed_scripts_are_reported_and_loaded_again() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    server.command(&["SCRIPT", "FLUSH"]).await.unwrap();
    assert!(matches!(append(&link, "lost").await, Err(LinkError::NoScript)));
    append(&link, "kept").await.unwrap();
    assert_eq!(list(&server).await, ["kept"]);
}

#[tokio::test]
async fn messages_of_scripts_arrive_and_the_self_test_stays_inside() {
    let server = RedisServer::start().await.unwrap();
    let (link, seen) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    assert!(seen.ups.lock().unwrap()[0].counts_receivers);
    let told = link.call(&TELL, Vec::new(), vec![b"inbox".to_vec(), b"hello".to_vec()]).await.unwrap();
    assert_eq!(told, Value::Int(1));
    assert_eq!(*seen.messages.lock().unwrap(), ["inbox hello"]);
}

#[tokio::test]
async fn a_warm_call_is_one_command() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for number in 0..100 {
        append(&link, &number.to_string()).await.unwrap();
    }
    let mut calls = server.calls().await.unwrap();
    calls.retain(|command, _| !command.starts_with("config"));
    assert_eq!(calls, [("evalsha", 100), ("rpush", 100)].map(|(command, calls)| (command.to_owned(), calls)).into());
}

#[tokio::test]
async fn renewals_have_a_connection_of_their_own_and_fall_back() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    let renew = || try_join_all((0..3).map(|_| link.call_renewal(&APPEND, vec!["list".into()], vec![b"r".to_vec()])));
    renew().await.unwrap();
    until("the second connection", || link.renewals_are_up()).await;
    renew().await.unwrap();
    let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
    assert!(clients.contains("name=stockade:lock ") && clients.contains("name=stockade:lock-renewal "), "{clients}");
    let stuck: Vec<_> = (0..2).map(|_| append(&link, "a")).collect();
    for reply in stuck {
        reply.await.unwrap();
    }
    assert_eq!(list(&server).await.len(), 8);
}

/// A first replica gives the server's data another name, without another process or other data.
#[tokio::test]
async fn renewals_keep_their_connection_on_a_server_whose_run_got_another_name() {
    let (server, replica) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    let port = server.addr().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
    eventually("a replica", async || replica.command(&["INFO"]).await.unwrap().contains("master_link_status:up")).await;
    let renew = || link.call_renewal(&APPEND, vec!["list".into()], vec![b"r".to_vec()]);
    renew().await.unwrap();
    until("the second connection", || link.renewals_are_up()).await;
    renew().await.unwrap();
    let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
    let renewing = clients.lines().find(|client| client.contains("name=stockade:lock-renewal ")).unwrap();
    assert!(renewing.contains("cmd=evalsha"), "{renewing}");
}

/// Every answer takes 300 ms, which its time-out allows. Opening takes more than two seconds then.
#[tokio::test]
async fn a_slow_server_that_answers_within_the_time_out_is_connected() {
    let server = RedisServer::start().await.unwrap();
    let proxy = Proxy::start(server.addr()).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(150)));
    let redis = Redis::builder(format!("redis://{}", proxy.addr())).command_timeout(Duration::from_secs(1));
    let (link, _) = open(&redis.connect().await.unwrap()).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
}

#[tokio::test]
async fn renewals_go_past_a_renewal_connection_that_stands_still() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    let renew = || link.call_renewal(&APPEND, vec!["list".into()], vec![b"r".to_vec()]);
    renew().await.unwrap();
    until("the second connection", || link.renewals_are_up()).await;
    let _stalled = link.stall_renewals();
    // The first one finds out.
    let _ = renew().await;
    renew().await.unwrap();
    assert!(link.renewals_are_up(), "another connection took its place");
}

#[tokio::test]
async fn a_connection_that_is_reset_is_made_again() {
    let server = RedisServer::start().await.unwrap();
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let (link, seen) = open(&Redis::connect(format!("redis://{}", proxy.addr())).await.unwrap()).await;
    up(&link).await;
    proxy.set(Fault::DropReplies);
    let lost = append(&link, "executed");
    assert!(matches!(timeout(Duration::from_secs(1), lost).await.unwrap(), Err(LinkError::Timeout)));
    proxy.set(Fault::None);
    proxy.reset_connections();
    until("a new connection", || seen.ups.lock().unwrap().len() == 2).await;
    append(&link, "again").await.unwrap();
    assert_eq!(list(&server).await, ["executed", "again"]);
}

#[tokio::test]
async fn a_shutdown_without_a_limit_ends_with_the_tasks() {
    let server = RedisServer::start().await.unwrap();
    let (link, _) = open(&Redis::connect(server.url()).await.unwrap()).await;
    up(&link).await;
    timeout(Duration::from_secs(10), link.shutdown(Duration::MAX)).await.expect("it waits for ever");
    assert!(!link.is_up());
}

#[tokio::test]
async fn shutdown_and_drop_close_the_connections() {
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let (link, seen) = open(&redis).await;
    up(&link).await;
    link.shutdown(Duration::from_secs(1)).await;
    assert!(!link.is_up() && matches!(append(&link, "x").await, Err(LinkError::Down)));
    let (other, dropped) = open(&redis).await;
    up(&other).await;
    drop(other);
    until("the end of the tasks", || dropped.closed.load(Ordering::SeqCst) > 0).await;
    assert!(seen.closed.load(Ordering::SeqCst) > 0);
    drop(link);
    let clients = async || server.command(&["CLIENT", "LIST"]).await.unwrap();
    eventually("the end of the connections", async || !clients().await.contains("name=stockade")).await;
}
