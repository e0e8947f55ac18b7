use std::{io, sync::Arc, time::Duration};

use stockade_testbed::{Certificates, RedisCluster, RedisServer, SentinelGroup};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::support::slot_of;

const LIMIT: Duration = Duration::from_secs(20);

/// Asks the server for a PONG, as a client that trusts one authority.
async fn ping(redis: &RedisServer, trusted: &Certificates, own: Option<&Certificates>) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.authority_pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let certificate = CertificateDer::from_pem_slice(own.client_certificate_pem().as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.client_key_pem().as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(redis.addr()).await?;
    // A server that does not speak TLS waits for the end of a command.
    let shaken = timeout(LIMIT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    let mut stream = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn a_server_with_tls_answers_who_trusts_its_authority() {
    let certificates = Certificates::new().unwrap();
    let redis = RedisServer::builder().password("s3cret").tls(&certificates).start().await.unwrap();
    assert_eq!(redis.url(), format!("rediss://:s3cret@127.0.0.1:{}", redis.port()));
    assert_eq!(ping(&redis, &certificates, None).await.unwrap(), "-NOAU");
    redis.restart().await.unwrap();
    assert_eq!(redis.command(&["PING"]).await.unwrap(), "PONG");
}

#[tokio::test]
async fn a_server_with_tls_refuses_plain_connections() {
    let redis = RedisServer::builder().tls(&Certificates::new().unwrap()).start().await.unwrap();
    let mut plain = TcpStream::connect(redis.addr()).await.unwrap();
    plain.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 64];
    // The server takes PING for a broken handshake and closes the connection, with or without an alert.
    let length = plain.read(&mut answer).await.unwrap_or_default();
    assert!(!answer.starts_with(b"+"), "{:?}", &answer[..length]);
}

#[tokio::test]
async fn another_authority_or_another_name_is_not_trusted() {
    let (certificates, stranger) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let redis = RedisServer::builder().tls(&certificates).start().await.unwrap();
    let refused = ping(&redis, &stranger, None).await.unwrap_err().to_string();
    assert!(refused.contains("UnknownIssuer") || refused.contains("BadSignature"), "{refused}");
    let elsewhere = Certificates::of_server(["redis.example"]).unwrap();
    let redis = RedisServer::builder().tls(&elsewhere).start().await.unwrap();
    let refused = ping(&redis, &elsewhere, None).await.unwrap_err().to_string();
    assert!(refused.contains("not valid for"), "{refused}");
}

#[tokio::test]
async fn a_server_with_mutual_tls_wants_a_certificate_of_its_authority() {
    let (certificates, stranger) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let redis = RedisServer::builder().mutual_tls(&certificates).start().await.unwrap();
    assert!(ping(&redis, &certificates, None).await.is_err());
    assert!(ping(&redis, &certificates, Some(&stranger)).await.is_err());
    assert_eq!(ping(&redis, &certificates, Some(&certificates)).await.unwrap(), "+PONG");
}

#[tokio::test]
async fn a_group_with_mutual_tls_fails_over_and_speaks_nothing_else() {
    let certificates = Certificates::new().unwrap();
    let group = SentinelGroup::builder().password("s3cret").mutual_tls(&certificates).start().await.unwrap();
    assert!(group.url().starts_with("rediss-sentinel://:s3cret@127.0.0.1:"), "{}", group.url());
    for server in group.servers().iter().chain(group.sentinels()) {
        assert!(ping(server, &certificates, None).await.is_err());
        ping(server, &certificates, Some(&certificates)).await.unwrap();
    }
    let old = group.primary().await.unwrap();
    old.command(&["SET", "key", "value"]).await.unwrap();
    assert_eq!(old.command(&["WAIT", "2", "5000"]).await.unwrap(), "2");
    group.failover().await.unwrap();
    old.restart().await.unwrap();
    group.until_settled().await.unwrap();
    assert_eq!(old.command(&["GET", "key"]).await.unwrap(), "value");
    let told = group.primary().await.unwrap().command(&["ROLE"]).await.unwrap();
    assert!(told.starts_with("master") && told.contains(&old.port().to_string()), "{told}");
}

#[tokio::test]
async fn a_cluster_with_mutual_tls_fails_over_moves_slots_and_speaks_nothing_else() {
    const KEY: &str = "{stock}:1";
    let certificates = Certificates::new().unwrap();
    let cluster = RedisCluster::builder().password("s3cret").mutual_tls(&certificates).start().await.unwrap();
    assert!(cluster.url().starts_with("rediss-cluster://:s3cret@127.0.0.1:"), "{}", cluster.url());
    for node in cluster.nodes() {
        assert!(ping(node, &certificates, None).await.is_err());
        ping(node, &certificates, Some(&certificates)).await.unwrap();
    }
    let slot = slot_of(&cluster, KEY).await;
    let old = cluster.primary_of(slot).await.unwrap();
    old.command(&["SET", KEY, "value"]).await.unwrap();
    assert_eq!(old.command(&["WAIT", "1", "5000"]).await.unwrap(), "1");
    cluster.failover(slot).await.unwrap();
    old.restart().await.unwrap();
    cluster.until_settled().await.unwrap();
    let to = cluster.primary_of((slot + 8_192) % 16_384).await.unwrap();
    cluster.migrate(slot, to).await.unwrap();
    assert_eq!(to.command(&["GET", KEY]).await.unwrap(), "value");
}
