//! The link over TLS.

use std::time::Duration;

use stockade_testbed::{Certificates, RedisServer};

use super::{append, list, open, up};
use crate::redis::{ConnectError, Pool, Redis, TlsOptions};

async fn refusal(url: &str, options: TlsOptions) -> String {
    // Longer than a slow machine takes to read the authorities of the operating system.
    match Redis::builder(url).tls(options).command_timeout(Duration::from_secs(20)).connect().await {
        Err(ConnectError::Tls { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a client that connects to these servers without TLS.
async fn plain_refusal(url: &str) -> String {
    let url = url.replacen("rediss", "redis", 1);
    match Redis::builder(url).command_timeout(Duration::from_secs(20)).connect().await {
        Err(ConnectError::Tls { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A server that hangs up on a plain client, and does not speak TLS either, may be shutting down.
#[tokio::test]
async fn a_server_that_hangs_up_for_another_reason_is_waited_for() {
    use stockade_testbed::{Fault, Proxy};

    let server = RedisServer::start().await.unwrap();
    let proxy = Proxy::start(server.addr()).await.unwrap();
    server.kill().await.unwrap();
    proxy.set(Fault::None);
    // The proxy accepts, finds nobody behind it and hangs up.
    let redis = Redis::connect(proxy.url_for(&server.url())).await.unwrap();
    server.restart().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
}

impl TlsOptions {
    /// The options for servers with these certificates that ask clients for a certificate.
    pub(crate) fn mutual(certificates: &Certificates) -> Self {
        trusting(certificates).client_certificate(certificates.client_certificate_pem(), certificates.client_key_pem())
    }
}

fn trusting(certificates: &Certificates) -> TlsOptions {
    TlsOptions::new().root_certificates(certificates.authority_pem())
}

#[tokio::test]
async fn locks_and_pool_speak_tls_with_a_server_whose_authority_is_named() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().tls(&certificates).password("s3cret").start().await.unwrap();
    let redis = Redis::builder(server.url()).tls(trusting(&certificates)).connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
    let Some(Pool::Single(pool)) = redis.pool() else { panic!("no pool") };
    let mut connection = pool.get().await.unwrap();
    let length: u64 = redis::cmd("LLEN").arg("list").query_async(&mut connection).await.unwrap();
    assert_eq!(length, 1);
    server.restart().await.unwrap();
    up(&link).await;
    while append(&link, "again").await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(list(&server).await.contains(&"again".to_owned()));
}

#[tokio::test]
async fn a_certificate_is_shown_to_a_server_that_asks_for_one() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().mutual_tls(&certificates).start().await.unwrap();
    let options = TlsOptions::mutual(&certificates);
    assert!(!format!("{options:?}").contains("PRIVATE KEY"));
    let builder = Redis::builder(server.url()).tls(options);
    assert!(!format!("{builder:?}").contains("PRIVATE KEY"));
    let (link, _) = open(&builder.connect().await.unwrap()).await;
    up(&link).await;
    append(&link, "x").await.unwrap();
    let reason = refusal(&server.url(), trusting(&certificates)).await;
    assert!(reason.contains("client_certificate"), "{reason}");
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_said_with_its_remedy() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().tls(&certificates).start().await.unwrap();
    let unknown = refusal(&server.url(), trusting(&Certificates::new().unwrap())).await;
    assert!(unknown.contains("root_certificates"), "{unknown}");
    let system = refusal(&server.url(), TlsOptions::new()).await;
    assert!(system.contains("root_certificates"), "{system}");

    let elsewhere = Certificates::of_server(["redis.example"]).unwrap();
    let named = RedisServer::builder().tls(&elsewhere).start().await.unwrap();
    let mismatch = refusal(&named.url(), trusting(&elsewhere)).await;
    assert!(mismatch.contains("redis.example") && mismatch.contains("name"), "{mismatch}");

    let plain = RedisServer::start().await.unwrap();
    let url = plain.url().replace("redis://", "rediss://");
    let none = refusal(&url, trusting(&certificates)).await;
    assert!(none.contains("does not speak TLS"), "{none}");

    // A TLS server hangs up on a plain client, as if it were shutting down, so the client tests whether it speaks TLS.
    let hang_up = plain_refusal(&server.url()).await;
    assert!(hang_up.contains("rediss://"), "{hang_up}");
}

#[tokio::test]
async fn options_that_cannot_be_used_are_refused_without_being_shown() {
    let certificates = Certificates::new().unwrap();
    let refused = async |url: &str, options: TlsOptions| match Redis::builder(url).tls(options).connect().await {
        Err(ConnectError::Config { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let plain = refused("redis://127.0.0.1:1", trusting(&certificates)).await;
    assert!(plain.contains("rediss://"), "{plain}");
    let url = "rediss://127.0.0.1:1";
    let roots = refused(url, TlsOptions::new().root_certificates("s3cret")).await;
    assert!(roots.contains("root certificates") && !roots.contains("s3cret"), "{roots}");
    let key = TlsOptions::new().client_certificate(certificates.client_certificate_pem(), "s3cret");
    let key = refused(url, key).await;
    assert!(key.contains("key") && !key.contains("s3cret"), "{key}");
    let certificate = TlsOptions::new().client_certificate("s3cret", certificates.client_key_pem());
    let certificate = refused(url, certificate).await;
    assert!(certificate.contains("client certificate") && !certificate.contains("s3cret"), "{certificate}");
}

#[tokio::test]
async fn what_is_wrong_with_tls_behind_sentinels_is_said_with_its_remedy() {
    use stockade_testbed::SentinelGroup;

    let certificates = Certificates::new().unwrap();
    let group = SentinelGroup::builder().mutual_tls(&certificates).start().await.unwrap();
    // A sentinel that is down does not hide the refusals of the others.
    group.sentinels()[0].kill().await.unwrap();
    let unknown = refusal(&group.url(), TlsOptions::mutual(&Certificates::new().unwrap())).await;
    assert!(unknown.contains("root_certificates"), "{unknown}");
    let nobody = refusal(&group.url(), trusting(&certificates)).await;
    assert!(nobody.contains("client_certificate"), "{nobody}");
    let hang_up = plain_refusal(&group.url()).await;
    assert!(hang_up.contains("rediss-sentinel://"), "{hang_up}");
    let redis = Redis::builder(group.url()).tls(TlsOptions::mutual(&certificates)).connect().await.unwrap();
    let (link, _) = open(&redis).await;
    up(&link).await;

    let plain = SentinelGroup::start().await.unwrap();
    plain.sentinels()[0].kill().await.unwrap();
    let none = refusal(&plain.url().replace("redis-", "rediss-"), trusting(&certificates)).await;
    assert!(none.contains("does not speak TLS"), "{none}");
}

#[tokio::test]
async fn what_is_wrong_with_tls_on_a_cluster_is_said_with_its_remedy() {
    use stockade_testbed::RedisCluster;

    let certificates = Certificates::new().unwrap();
    let cluster = RedisCluster::builder().without_replicas().mutual_tls(&certificates).start().await.unwrap();
    let unknown = refusal(&cluster.url(), TlsOptions::mutual(&Certificates::new().unwrap())).await;
    assert!(unknown.contains("root_certificates"), "{unknown}");
    let nobody = refusal(&cluster.url(), trusting(&certificates)).await;
    assert!(nobody.contains("client_certificate"), "{nobody}");
    let hang_up = plain_refusal(&cluster.url()).await;
    assert!(hang_up.contains("rediss-cluster://"), "{hang_up}");
}
