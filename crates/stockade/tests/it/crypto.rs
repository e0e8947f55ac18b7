//! TLS in a process that has chosen its own provider of cryptography.

use std::{process::Stdio, time::Duration};

use rustls::crypto::{CryptoProvider, ring};
use stockade::{Locks, Redis, redis::TlsOptions};
use stockade_testbed::{Certificates, RedisServer};
use tokio::process::Command;

use crate::resources::Item;

/// Set in a child of the test. The choice holds for a whole process, so the test needs a process of its own.
const CHILD: &str = "STOCKADE_TEST_CRYPTO";

/// The limit for the child. Only a failing test reaches it, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(10);

async fn lock_over_tls() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().tls(&certificates).start().await.unwrap();
    let options = TlsOptions::new().root_certificates(certificates.authority_pem());
    let locks = Locks::new(&Redis::builder(server.url()).command_timeout(LIMIT).tls(options).connect().await.unwrap());
    let guard = locks.write(&Item(1)).wait(LIMIT).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// Not a test by itself: the child of the next test runs this.
#[tokio::test]
async fn a_process_with_a_provider_of_its_own() {
    if std::env::var_os(CHILD).is_some() {
        let mut own = ring::default_provider();
        own.cipher_suites.truncate(2);
        own.install_default().unwrap();
        lock_over_tls().await;
        let chosen = CryptoProvider::get_default().unwrap().cipher_suites.len();
        assert_eq!(chosen, 2, "the provider was replaced");
    }
}

#[tokio::test]
async fn a_provider_that_the_process_installed_stays() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["crypto::a_process_with_a_provider_of_its_own", "--exact", "--quiet"])
        .env(CHILD, "yes")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = child.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
