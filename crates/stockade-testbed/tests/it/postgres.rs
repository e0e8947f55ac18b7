use std::{path::PathBuf, process::Stdio, time::Duration};

use stockade_testbed::{Error, PostgresServer, eventually};
use tokio::{process::Child, time::timeout};

use crate::support::{children_of, is_alive, is_stopped, processes_with};

/// Runs a statement in a session of its own and gives its rows.
async fn query(postgres: &PostgresServer, url: &str, sql: &str) -> Result<String, String> {
    let output = psql(postgres, url, sql).output().await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

fn psql(postgres: &PostgresServer, url: &str, sql: &str) -> tokio::process::Command {
    let mut psql = tokio::process::Command::new(postgres.bin().join("psql"));
    psql.args([url, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]).kill_on_drop(true);
    psql
}

/// A session that is busy for longer than any test takes.
async fn session(postgres: &PostgresServer, url: &str) -> Child {
    const BUSY: &str = "select pg_sleep(600)";
    let session = psql(postgres, url, BUSY).stderr(Stdio::null()).spawn().unwrap();
    let seen = format!("select count(*) from pg_stat_activity where query = '{BUSY}'");
    eventually("the session is busy", async || query(postgres, url, &seen).await.unwrap() == "1").await;
    session
}

#[tokio::test]
async fn a_private_postgres_takes_statements_and_counts_them() {
    let postgres = PostgresServer::start().await.unwrap();
    let url = postgres.url();
    assert!(url.starts_with("postgres://stockade:"), "{url}");
    query(&postgres, &url, "create extension pg_stat_statements").await.unwrap();
    let counted = query(&postgres, &url, "select count(*) > 0 from pg_stat_statements").await.unwrap();
    assert_eq!(counted, "t");
    assert_eq!(query(&postgres, &url, "show max_connections").await.unwrap(), "200");
}

/// A machine has a few thousand segments, and its memory. Without the cleanup some test runs would use them up.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_killed_postgres_leaves_no_shared_memory() {
    let segments = || std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let listed = |segment: &str| segments().lines().any(|line| line.split_whitespace().nth(1) == Some(segment));
    for dropped in [true, false] {
        let postgres = PostgresServer::start().await.unwrap();
        let read = "select split_part(trim(split_part(pg_read_file('postmaster.pid'), E'\\n', 7)), ' ', -1)";
        let segment = query(&postgres, &postgres.url(), read).await.unwrap();
        assert!(listed(&segment), "{segment}\n{}", segments());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", postgres.pid())).unwrap();
        assert!(maps.contains("/data/pg_dynshmem/"), "its other shared memory goes with its folder\n{maps}");
        assert!(!maps.contains("/dev/shm/"), "{maps}");
        if !dropped {
            postgres.kill().await.unwrap();
        }
        drop(postgres);
        eventually("its segment is gone", async || !listed(&segment)).await;
    }
}

#[tokio::test]
async fn a_private_postgres_refuses_whoever_lacks_the_password() {
    let postgres = PostgresServer::start().await.unwrap();
    let (_, place) = postgres.url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let refused = query(&postgres, &format!("postgres://stockade:wrong@{place}"), "select 1").await.unwrap_err();
    assert!(refused.contains("password authentication failed"), "{refused}");
    assert!(!format!("{postgres:?}").contains("password"), "{postgres:?}");
}

#[tokio::test]
async fn a_paused_postgres_freezes_open_and_new_sessions() {
    let postgres = PostgresServer::start().await.unwrap();
    let url = postgres.url();
    let _session = session(&postgres, &url).await;
    let backends = children_of(postgres.pid());
    assert!(backends.len() > 4, "{backends:?}");
    postgres.pause().unwrap();
    // The backend of a session that has just ended may be dead but still listed.
    let frozen = |pid: &u32| is_stopped(*pid) || !is_alive(*pid);
    eventually("every backend is stopped", async || backends.iter().all(frozen)).await;
    assert!(backends.iter().filter(|pid| is_stopped(**pid)).count() > 4);
    assert!(timeout(Duration::from_millis(300), query(&postgres, &url, "select 1")).await.is_err());
    postgres.resume().unwrap();
    assert_eq!(query(&postgres, &url, "select 1").await.unwrap(), "1");
    assert!(backends.iter().all(|pid| !is_stopped(*pid)));
}

#[tokio::test]
async fn a_killed_postgres_leaves_no_backend_and_comes_back_with_its_data() {
    let postgres = PostgresServer::start().await.unwrap();
    let url = postgres.url();
    query(&postgres, &url, "create table kept as select 7 as n").await.unwrap();
    let mut busy = session(&postgres, &url).await;
    let children = children_of(postgres.pid());
    assert!(children.len() > 4, "{children:?}");
    postgres.pause().unwrap();
    postgres.kill().await.unwrap();
    assert_eq!(children.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<_>>(), []);
    assert!(!busy.wait().await.unwrap().success());
    assert!(matches!(postgres.resume(), Err(Error::NotRunning(_))));
    postgres.restart().await.unwrap();
    assert_eq!(postgres.url(), url);
    assert_eq!(query(&postgres, &url, "select n from kept").await.unwrap(), "7");
}

#[tokio::test]
async fn a_postgres_that_can_not_start_says_why() {
    let error = PostgresServer::builder().setting("max_connections", "none").start().await.unwrap_err().to_string();
    assert!(error.contains("max_connections=none"), "{error}");
    assert!(error.contains("invalid value for parameter"), "{error}");
}

#[tokio::test]
async fn a_dropped_postgres_leaves_no_process_and_no_folder() {
    let postgres = PostgresServer::start().await.unwrap();
    let folder = query(&postgres, &postgres.url(), "show data_directory").await.map(PathBuf::from).unwrap();
    let folder = folder.parent().unwrap().to_owned();
    assert!(!processes_with(folder.to_str().unwrap()).is_empty());
    drop(postgres);
    eventually("nothing is left", async || processes_with(folder.to_str().unwrap()).is_empty() && !folder.exists())
        .await;
}
