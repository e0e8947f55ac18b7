//! Each example as a process of its own, against servers of the testbed.

use std::{collections::HashSet, env, time::Duration};

use futures_util::future::join_all;
use reqwest::{Client, StatusCode};
use stockade_testbed::{PostgresServer, RedisServer};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::child::Child;

/// The variable that tells a process of these tests which example it runs.
const PROGRAM: &str = "STOCKADE_EXAMPLE";

#[path = "../../examples/catalogue.rs"]
mod catalogue;
#[path = "../../examples/service.rs"]
mod service;
#[path = "../../examples/transfer.rs"]
mod transfer;
#[path = "../../examples/worker.rs"]
mod worker;

/// Runs the example in a process that the tests below start. In an ordinary run it does nothing.
#[test]
fn program() {
    let Ok(example) = env::var(PROGRAM) else { return };
    let ended = match example.as_str() {
        "catalogue" => catalogue::main(),
        "service" => service::main(),
        "transfer" => transfer::main(),
        "worker" => worker::main(),
        unknown => panic!("no example {unknown}"),
    };
    ended.unwrap();
}

fn start(example: &str, redis: &RedisServer, environment: &[(&str, String)]) -> Child {
    let mut all = vec![(PROGRAM, example.to_owned()), ("REDIS_URL", redis.url())];
    all.extend_from_slice(environment);
    Child::start("examples::program", &all)
}

/// Runs an example to its end, which must be a success, and returns its output.
async fn output(example: &str, redis: &RedisServer, environment: &[(&str, String)]) -> String {
    ended(start(example, redis, environment)).await
}

/// The rest of an example's output. The example must end with success.
async fn ended(mut child: Child) -> String {
    let mut said = String::new();
    let all = async {
        while let Some(line) = child.0.next_line().await.unwrap() {
            said += &line;
            said.push('\n');
        }
        child.0.wait().await.unwrap()
    };
    let status = tokio::time::timeout(Duration::from_secs(60), all).await.expect("the example does not end");
    assert!(status.success(), "{status}: {said}");
    said
}

/// The rest of the first line that contains `text`. The lines of examples have no mark.
async fn says_somewhere(child: &mut Child, text: &str) -> String {
    child.0.says(text, Duration::from_secs(20)).await.unwrap()
}

#[tokio::test]
async fn a_catalogue_is_warm_knows_what_exists_and_is_cleared_by_supplier() {
    let redis = RedisServer::start().await.unwrap();
    let said = output("catalogue", &redis, &[]).await;
    for line in [
        "warm: 3 loaded",
        "85123A: Some(255) from Local",
        "99999: None from Filter",
        "85123A: from Load",
        "84879: from Local",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[tokio::test]
async fn a_worker_finishes_under_the_lock_what_a_request_began() {
    let redis = RedisServer::start().await.unwrap();
    let said = output("worker", &redis, &[]).await;
    let steps = [
        "202: the export was begun",
        "409: the export is being made",
        "the worker has the lock",
        "uploaded",
        "readers are let in, writers are not: None",
    ];
    let mut rest = said.as_str();
    for step in steps {
        rest = rest.split_once(step).unwrap_or_else(|| panic!("{step}: {said}")).1;
    }
}

#[tokio::test]
async fn transfers_both_ways_end_with_the_balances_that_strict_reads_see() {
    let (redis, postgres) = (RedisServer::start().await.unwrap(), PostgresServer::start().await.unwrap());
    let said = output("transfer", &redis, &[("DATABASE_URL", postgres.url())]).await;
    assert!(said.contains("ann 100, bob 100"), "{said}");
    assert!(said.contains("eve: no such account"), "{said}");
    assert!(said.contains("ann: 64 is too little"), "{said}");
    assert!(said.contains("ann 64, bob 136"), "{said}");
}

#[tokio::test]
async fn two_instances_of_the_service_sell_each_unit_once_and_show_what_is_left() {
    let (redis, postgres) = (RedisServer::start().await.unwrap(), PostgresServer::start().await.unwrap());
    let environment = [("DATABASE_URL", postgres.url()), ("LISTEN_ADDR", "127.0.0.1:0".to_owned())];
    let mut instances = Vec::new();
    for _ in 0..2 {
        let mut child = start("service", &redis, &environment);
        let address = says_somewhere(&mut child, "listening on ").await;
        instances.push((child, address));
    }
    let client = Client::new();
    let stock = |address: &str| {
        let request = client.get(format!("{address}/stock/85123A"));
        async move { request.send().await.unwrap().text().await.unwrap() }
    };
    // After this loop the value is in the cache of both instances.
    for (_, address) in &instances {
        assert_eq!(stock(address).await, r#"{"quantity":20,"version":1}"#);
    }
    let sales = (0..30).map(|n| client.post(format!("{}/stock/85123A/sell", instances[n % 2].1)).send());
    let mut answers = HashSet::new();
    let mut refused = 0;
    for answer in join_all(sales).await {
        let answer = answer.unwrap();
        match answer.status() {
            StatusCode::OK => assert!(answers.insert(answer.text().await.unwrap())),
            status => {
                assert_eq!(status, StatusCode::CONFLICT);
                refused += 1;
            }
        }
    }
    assert_eq!((answers.len(), refused), (20, 10), "{answers:?}");
    for (_, address) in &instances {
        assert_eq!(stock(address).await, r#"{"quantity":0,"version":21}"#);
    }
    let metrics = client.get(format!("{}/metrics", instances[0].1)).send().await.unwrap().text().await.unwrap();
    for line in [
        r#"stockade_lock_acquisitions_total{lock="stock",mode="write",outcome="granted"} 15"#,
        r#"stockade_cache_requests_total{cache="stock","#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // This one never finishes its request.
    let mut unfinished = TcpStream::connect(instances[0].1.trim_start_matches("http://")).await.unwrap();
    unfinished.write_all(b"POST /stock/85123A/sell HTTP/1.1\r\n").await.unwrap();
    for (child, _) in instances {
        child.0.interrupt().unwrap();
        ended(child).await;
    }
}
