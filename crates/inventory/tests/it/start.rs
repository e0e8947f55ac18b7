use inventory::config::DatabaseArgs;
use sqlx::ConnectOptions;

use crate::{
    stage::{Stage, bare_command, outcome},
    stock_db::execute,
};

/// Settings that would be enough to start if servers listened there.
const BASE: [(&str, &str); 4] = [
    ("DATABASE_URL", "postgres://stock:hunter2@127.0.0.1:1/stock"),
    ("REDIS_URL", "redis://:hunter2@127.0.0.1:1"),
    ("LISTEN_ADDR", "127.0.0.1:0"),
    ("OPS_ADDR", "127.0.0.1:0"),
];

#[test]
fn a_password_of_its_own_is_taken_as_it_is_and_goes_before_that_of_the_url() {
    let password = |given: Option<&str>| {
        let args = DatabaseArgs {
            database_url: Some("postgres://stock:url@127.0.0.1/stock".to_owned().into()),
            database_url_file: None,
            database_password: given.map(|password| password.to_owned().into()),
            database_password_file: None,
        };
        args.options().unwrap().to_url_lossy().password().map(str::to_owned)
    };
    assert_eq!(password(None).as_deref(), Some("url"));
    assert_eq!(password(Some("p@ss:w/rd#%")).as_deref(), Some("p%40ss%3Aw%2Frd%23%25"));
}

#[tokio::test]
async fn bad_settings_are_refused_by_name_with_a_remedy_before_anything_listens() {
    // A variable, its value, and texts that must be in the message.
    let cases = [
        ("DATABASE_URL", "", &["DATABASE_URL: not set", "postgres://"][..]),
        ("DATABASE_URL", "mysql://u:hunter2@h/d", &["DATABASE_URL", "postgres://USER"]),
        ("DATABASE_URL", "postgres://u:hunter2@h:port/d", &["DATABASE_URL", "postgres://USER"]),
        ("DATABASE_URL", "postgres://u:hunter2@h:port/d", &["invalid port number"]),
        ("DATABASE_URL", "postgres://u:hunter2@h/d?sslmode=bogus", &["sslmode", "verify-full"]),
        // A password that is not escaped: the URL ends its host before it.
        ("DATABASE_URL", "postgres://u:1?sslmode=hunter2@h/d", &["sslmode", "verify-full"]),
        ("DATABASE_URL_FILE", "/nowhere/at/all", &["DATABASE_URL"]),
        ("DATABASE_PASSWORD_FILE", "/nowhere/at/all", &["DATABASE_PASSWORD_FILE", "may read"]),
        ("ADMIN_TOKEN_FILE", "/nowhere/at/all", &["ADMIN_TOKEN_FILE", "/nowhere/at/all", "may read"]),
        ("ADMIN_TOKEN", "two hunter2", &["ADMIN_TOKEN", "visible ASCII"]),
        ("REDIS_URL", "", &["REDIS_URL: not set", "redis://"]),
        ("REDIS_URL", "http://:hunter2@h", &["LOCK_REDIS_URL|REDIS_URL", "redis://"]),
        ("CACHE_REDIS_URL", "redis-sentinel://:hunter2@h1,h2", &["CACHE_REDIS_URL", "h1,h2", "name of the primary"]),
        ("LOCK_REDIS_URL", "redis-cluster://:hunter2@h1,h2/1", &["LOCK_REDIS_URL", "h1,h2/1", "database 0 only"]),
        ("LOCK_REDIS_URL", "rediss://:hunter2@h/#insecure", &["LOCK_REDIS_URL", "rediss://h/", "#insecure"]),
        ("LOCK_REDIS_URL", "redis://:hunter2@h:port", &["LOCK_REDIS_URL", "h:port", "redis://[[user]:password@]host"]),
        ("CACHE_REDIS_URL", "redis-cluster://127.0.0.1:1", &["CACHE_REDIS_URL (or REDIS_URL): ", "a single Redis"]),
        ("CACHE_REDIS_URL", "redlock://h1,h2,h3", &["CACHE_REDIS_URL", "a quorum of servers keeps locks only"]),
        (
            "LOCK_REDIS_URL",
            "redlock://127.0.0.1:1,127.0.0.1:2",
            &["LOCK_REDIS_URL", "at least 3|the feature `redlock`"],
        ),
        ("LISTEN_ADDR", "localhost", &["LISTEN_ADDR=\"localhost\"", "IP:PORT"]),
        ("OPS_ADDR", "127.0.0.1:99999", &["OPS_ADDR=\"127.0.0.1:99999\"", "IP:PORT"]),
        ("OPS_ADVERTISE", "http://a:1/x", &["OPS_ADVERTISE=\"http://a:1/x\"", "HOST:PORT"]),
        ("LOCK_WAIT", "2", &["LOCK_WAIT=\"2\"", "unit"]),
        ("LOCK_WAIT", "-1s", &["LOCK_WAIT=\"-1s\"", "unit"]),
        ("LOCK_WAIT", "0s", &["LOCK_WAIT=\"0s\"", "1ms"]),
        ("LOCK_WAIT", "8s", &["REQUEST_TIMEOUT=\"10s\"", "LOCK_WAIT + REDIS_TIMEOUT + DATABASE_ACQUIRE_TIMEOUT"]),
        ("LOCK_LEASE", "9s", &["REQUEST_TIMEOUT=\"10s\"", "LOCK_LEASE=9s", "raise"]),
        ("LOCK_LEASE", "30s", &["LOCK_LEASE=\"30s\"", "SHUTDOWN_GRACE=25s", "raise"]),
        ("LOCK_LEASE", "1h", &["LOCK_LEASE=\"1h\"", "5m"]),
        ("LOCK_MAX_WAITERS", "0", &["LOCK_MAX_WAITERS=\"0\"", "1 to"]),
        ("LOCK_MAX_WAITERS", "many", &["LOCK_MAX_WAITERS=\"many\"", "whole number"]),
        ("REDIS_TIMEOUT", "0ms", &["REDIS_TIMEOUT=\"0ms\"", "5ms"]),
        ("REDIS_TIMEOUT", "4s", &["REDIS_TIMEOUT=\"4s\"", "a third of LOCK_LEASE", "lower it"]),
        ("REDIS_TIMEOUT", "6s", &["REQUEST_TIMEOUT=\"10s\"", "6s", "lower one of the four"]),
        ("CACHE_MODE", "linear", &["CACHE_MODE=\"linear\"", "eventual", "strict"]),
        ("CACHE_TTL", "600s..300s", &["CACHE_TTL=\"600s..300s\"", "first"]),
        ("CACHE_TTL", "soon", &["CACHE_TTL=\"soon\"", "300s..600s"]),
        ("NULL_TTL", "x", &["NULL_TTL=\"x\"", "unit"]),
        ("CACHE_WARM_KEYS", "all", &["CACHE_WARM_KEYS=\"all\"", "whole number from 0"]),
        ("CACHE_WARM_LIMIT", "10", &["CACHE_WARM_LIMIT=\"10\"", "unit"]),
        ("CACHE_WARM_LIMIT", "2h", &["CACHE_WARM_LIMIT=\"2h\"", "1h"]),
        ("SKU_FILTER", "maybe", &["SKU_FILTER=\"maybe\"", "`off` or `on`"]),
        ("DB_MAX_LOADS", "1.5", &["DB_MAX_LOADS=\"1.5\"", "whole number"]),
        ("DATABASE_MAX_CONNECTIONS", "0", &["DATABASE_MAX_CONNECTIONS=\"0\"", "1 to"]),
        ("DATABASE_ACQUIRE_TIMEOUT", "never", &["DATABASE_ACQUIRE_TIMEOUT=\"never\"", "unit"]),
        ("STATEMENT_TIMEOUT", "0s", &["STATEMENT_TIMEOUT=\"0s\"", "10ms"]),
        ("REQUEST_TIMEOUT", "4s", &["REQUEST_TIMEOUT=\"4s\"", "5s 250ms", "raise"]),
        ("SHUTDOWN_GRACE", "5s", &["LOCK_LEASE=\"10s\"", "SHUTDOWN_GRACE=5s"]),
        ("SHUTDOWN_DELAY", "soon", &["SHUTDOWN_DELAY=\"soon\"", "unit"]),
        ("SHUTDOWN_DELAY", "16s", &["SHUTDOWN_DELAY=\"16s\"", "SHUTDOWN_GRACE=25s", "raise"]),
        ("MAX_CONNECTIONS", "0", &["MAX_CONNECTIONS=\"0\"", "1 to"]),
        ("HEADER_TIMEOUT", "0s", &["HEADER_TIMEOUT=\"0s\"", "100ms"]),
        ("IDEMPOTENCY_TTL", "0s", &["IDEMPOTENCY_TTL=\"0s\"", "1s"]),
        ("LOG_FORMAT", "xml", &["LOG_FORMAT=\"xml\"", "json"]),
        ("LOG_REQUESTS", "some", &["LOG_REQUESTS=\"some\"", "refusals"]),
        ("RUST_LOG", "inventory=loud", &["RUST_LOG=\"inventory=loud\"", "warn"]),
        ("RUST_LOG", "infos", &["RUST_LOG=\"infos\"", "not even an error", "warn"]),
    ];
    for (variable, value, said) in cases {
        let mut command = bare_command("serve");
        command.envs(BASE).env(variable, value);
        let (status, output) = outcome(command).await;
        let context = format!("{variable}={value}: {status}: {output}");
        assert_eq!(status.code(), Some(78), "{context}");
        for words in said {
            assert!(words.split('|').any(|words| output.contains(words)), "`{words}`: {context}");
        }
        assert!(!output.contains("listening"), "{context}");
        assert!(!output.contains("hunter2"), "{context}");
    }
}

#[tokio::test]
async fn a_database_that_can_not_keep_every_text_is_not_migrated() {
    let stage = Stage::bare().await;
    execute(&stage.pool, "create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'")
        .await;
    let url = stage.database_url.replace("/postgres", "/latin");
    let (status, output) = stage.run("migrate", &[("DATABASE_URL", &url)]).await;
    assert!(!status.success() && output.contains("LATIN1") && output.contains("UTF8"), "{output}");
    let latin = sqlx::PgPool::connect(&url).await.unwrap();
    let schemas = "select count(*) from pg_namespace where nspname = 'stockade'";
    assert_eq!(sqlx::query_scalar::<_, i64>(schemas).fetch_one(&latin).await.unwrap(), 0);
}

#[tokio::test]
async fn a_flag_is_as_good_as_its_variable_and_secrets_may_come_from_files() {
    let stage = Stage::start().await;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("database-url-{}", std::process::id()));
    std::fs::write(&file, format!("{}\n", stage.database_url)).unwrap();
    let mut command = bare_command("migrate");
    command.arg("--database-url-file").arg(&file);
    let (status, output) = outcome(command).await;
    assert!(status.success(), "{output}");
    let mut command = bare_command("serve");
    command.envs(BASE).args(["--lock-wait", "8s"]);
    let (status, output) = outcome(command).await;
    assert_eq!(status.code(), Some(78), "{output}");
    assert!(output.contains("LOCK_WAIT"), "{output}");
}

#[tokio::test]
async fn redis_that_may_evict_is_refused_for_locks_with_the_reason() {
    let stage = Stage::start().await;
    let evicting =
        stockade_testbed::RedisServer::builder().arg("--maxmemory-policy").arg("allkeys-lru").start().await.unwrap();
    let (status, output) = stage.run("serve", &[("LOCK_REDIS_URL", &evicting.url())]).await;
    assert_eq!(status.code(), Some(78), "{output}");
    assert!(output.contains("LOCK_REDIS_URL") && output.contains("noeviction"), "{output}");
    let instance = stage.serve(&[("CACHE_REDIS_URL", &evicting.url())]).await;
    assert_eq!(instance.put("A", 1).await.status, 201, "for a cache on its own it is right");
}

#[tokio::test]
async fn a_database_that_redis_lacks_is_refused_with_its_number() {
    let stage = Stage::start().await;
    let server = stockade_testbed::RedisServer::start().await.unwrap();
    let (status, output) = stage.run("serve", &[("LOCK_REDIS_URL", &format!("{}/99", server.url()))]).await;
    assert_eq!(status.code(), Some(78), "{output}");
    assert!(output.contains("LOCK_REDIS_URL") && output.contains("database 99"), "{output}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn locks_and_cache_may_be_behind_sentinels_or_tls() {
    let stage = Stage::start().await;
    let group = stockade_testbed::SentinelGroup::builder().password("hunter2").start().await.unwrap();
    let instance = stage.serve(&[("REDIS_URL", &group.url())]).await;
    assert_eq!(instance.put("A", 1).await.status, 201);
    let certificates = stockade_testbed::Certificates::new().unwrap();
    let secure = stockade_testbed::RedisServer::builder().tls(&certificates).start().await.unwrap();
    let authority = secure.folder().join("authority.crt");
    let variables = [("REDIS_URL", secure.url()), ("SSL_CERT_FILE", authority.display().to_string())];
    let instance = stage.serve(&variables.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    assert_eq!(instance.put("B", 1).await.status, 201);
    // If a handshake took longer than the time-out, the server would count as down and the instance would wait for it.
    let settings = [("REDIS_URL", secure.url()), ("REDIS_TIMEOUT", "2s".to_owned())];
    let (status, output) = stage.run("serve", &settings.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    assert_eq!(status.code(), Some(78), "{output}");
    assert!(output.contains("SSL_CERT_FILE"), "{output}");
}

#[tokio::test]
async fn a_closed_port_of_the_database_is_said_at_once() {
    for command in ["migrate", "seed"] {
        let mut command = bare_command(command);
        command
            .env("DATABASE_URL", BASE[0].1)
            .env("SEED_CSV", concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/online-retail.csv"))
            .env("SEED_LIMIT", "1");
        let since = tokio::time::Instant::now();
        let (status, output) = outcome(command).await;
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains("refused") && output.contains("127.0.0.1:1/stock"), "{output}");
        assert!(!output.contains("hunter2"), "{output}");
        assert!(since.elapsed() < std::time::Duration::from_secs(10), "{:?}", since.elapsed());
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let stage = Stage::start().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, output) = stage.run("serve", &[("OPS_ADDR", &address)]).await;
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains(&format!("OPS_ADDR={address}")), "{output}");
}

#[tokio::test]
async fn nothing_needs_to_be_there_at_the_start() {
    let mut command = bare_command("serve");
    command.envs(BASE);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut line).await.unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let status = async |path: &str| client.get(format!("{url}{path}")).send().await.unwrap().status().as_u16();
    assert_eq!((status("/healthz").await, status("/readyz").await), (200, 503));
    assert_eq!(status("/stock").await, 503);
    child.kill().await.unwrap();
}
