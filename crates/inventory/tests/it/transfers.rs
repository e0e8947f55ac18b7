//! `POST /transfers`

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, future::join_all, stream};
use inventory::conservation::check;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::{
    stage::{Answer, Instance, Stage},
    support::{alone, fleet, lock_keys, within},
};

fn asked(instance: &Instance, body: &Value) -> RequestBuilder {
    instance.request(Method::POST, "/transfers").json(body)
}

async fn transfer(instance: &Instance, from: &str, to: &str, quantity: i64) -> Answer {
    Answer::to(asked(instance, &json!({ "from": from, "to": to, "quantity": quantity }))).await
}

/// How many locks were granted, at once or after a wait.
async fn waits(instance: &Instance) -> u64 {
    let metrics = instance.metrics().await;
    let waits = metrics.lines().filter(|line| line.starts_with("stockade_lock_wait_seconds_count"));
    waits.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn assert_conserved(stage: &Stage) {
    let checked = check(&stage.pool, &[]).await.unwrap();
    assert!(checked.holds(), "{checked}");
}

#[tokio::test]
async fn a_transfer_moves_units_in_one_transaction_and_every_instance_sees_it() {
    let stage = Stage::start().await;
    let instances = fleet(&stage, 2, &[]).await;
    instances[0].put("A", 10).await;
    instances[0].put("B", 1).await;
    for sku in ["/stock/A", "/stock/B"] {
        instances[1].get(sku).await;
    }
    let body = json!({ "from": "A", "to": "B", "quantity": 4, "reference": "order 7" });
    let answer = Answer::to(asked(&instances[0], &body)).await;
    assert_eq!((answer.status, answer.header("cache-control")), (StatusCode::OK, "no-store"), "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["from"]["sku"], &said["from"]["quantity"]), (&json!("A"), &json!(6)));
    assert_eq!((&said["to"]["sku"], &said["to"]["quantity"]), (&json!("B"), &json!(5)));
    for (sku, side) in [("A", "from"), ("B", "to")] {
        assert_eq!(instances[1].get(&format!("/stock/{sku}")).await.json(), said[side], "as it is in the cache");
        let movements = instances[0].get(&format!("/stock/{sku}/movements?limit=1")).await.json();
        let newest = &movements["items"][0];
        assert_eq!((&newest["kind"], &newest["reference"]), (&json!("transfer"), &json!("order 7")), "{movements}");
        assert_eq!(newest["fencing_token"], said["fencing_tokens"][sku]);
    }
    let tokens: Vec<_> = answer.headers.get_all("fencing-token").iter().map(|token| token.to_str().unwrap()).collect();
    assert_eq!(tokens, ["A", "B"].map(|sku| said["fencing_tokens"][sku].to_string()));
    assert_conserved(&stage).await;
    let metrics = instances[0].metrics().await;
    for line in [
        r#"inventory_movements_total{kind="transfer",outcome="applied"} 1"#,
        r#"http_requests_total{method="POST",route="/transfers",status="200"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_transfer_that_is_refused_changes_nothing() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 3).await;
    instance.put("B", 1_000_000_000).await;
    let before = stage.fingerprint().await;

    let short = transfer(&instance, "A", "B", 4).await;
    assert_eq!((short.status, short.problem().as_str()), (StatusCode::CONFLICT, "insufficient-stock"));
    assert_eq!((&short.json()["available"], &short.json()["applied"]), (&json!(3), &json!(false)));
    for (from, to, named) in [("none", "A", "`from`"), ("A", "none", "`to`"), ("no", "none", "`from` and `to`")] {
        let absent = transfer(&instance, from, to, 1).await;
        assert_eq!((absent.status, absent.problem().as_str()), (StatusCode::NOT_FOUND, "not-found"));
        assert!(absent.json()["detail"].as_str().unwrap().ends_with(named), "{absent:?}");
    }
    let full = transfer(&instance, "A", "B", 1).await;
    assert_eq!((full.status, full.problem().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"));
    let same = transfer(&instance, "A", "A", 1).await;
    assert_eq!((same.status, same.problem().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "same-sku"));
    assert_eq!(stage.fingerprint().await, before);
}

#[tokio::test]
async fn a_body_that_is_no_transfer_is_refused_before_any_lock() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 3).await;
    instance.put("B", 3).await;
    let (before, waited) = (stage.fingerprint().await, waits(&instance).await);
    let whole = || json!({ "from": "A", "to": "B", "quantity": 1 });
    let with = |field: &str, value: Value| {
        let mut body = whole();
        body[field] = value;
        body
    };
    let mut bodies = vec![json!([]), json!(["A", "B", 1]), json!({ "from": "A", "to": "B" })];
    for quantity in [json!(0), json!(-1), json!(1.5), json!("1"), json!(1_000_000_001), json!(u64::MAX), Value::Null] {
        bodies.push(with("quantity", quantity));
    }
    bodies.push(with("from", json!(" ")));
    bodies.push(with("to", json!("x".repeat(65))));
    bodies.push(with("reference", json!("")));
    bodies.push(with("price", json!(1)));
    for body in bodies {
        let refused = Answer::to(asked(&instance, &body)).await;
        assert_eq!(
            (refused.status.as_u16(), refused.problem().as_str()),
            (422, "unprocessable"),
            "{body}: {refused:?}"
        );
    }
    let typed = |kind: &str, body: String| {
        instance.request(Method::POST, "/transfers").header("content-type", kind.to_owned()).body(body)
    };
    for (request, status, problem) in [
        (typed("application/json", "{".to_owned()), 400, "bad-request"),
        (typed("text/plain", whole().to_string()), 415, "unsupported-media-type"),
        (typed("application/json", " ".repeat(64 * 1024 + 1)), 413, "body-too-large"),
        (instance.request(Method::GET, "/transfers"), 405, "method-not-allowed"),
    ] {
        let refused = Answer::to(request).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (status, problem), "{refused:?}");
    }
    assert_eq!(stage.fingerprint().await, before);
    assert_eq!(waits(&instance).await, waited);
    assert_eq!(transfer(&instance, "A", "B", 1).await.status, StatusCode::OK);
    assert!(waits(&instance).await > waited, "the count does not count");
}

#[tokio::test]
async fn a_repeated_transfer_is_answered_again_and_done_once() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    instance.put("B", 0).await;
    let keyed = |quantity: i64| {
        let body = json!({ "from": "A", "to": "B", "quantity": quantity });
        Answer::to(asked(&instance, &body).header("idempotency-key", "k"))
    };
    let answers = join_all((0..10).map(|_| keyed(3))).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.text == answers[0].text), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.header("idempotent-replayed") == "true").count(), 9);
    assert_eq!(keyed(4).await.problem(), "idempotency-mismatch");
    assert_eq!(stage.count("select count(*) from movement where kind = 'transfer'").await, 2);

    let refused = async || {
        let body = json!({ "from": "A", "to": "B", "quantity": 8 });
        Answer::to(asked(&instance, &body).header("idempotency-key", "r")).await
    };
    let first = refused().await;
    instance.put("A", 100).await;
    let second = refused().await;
    assert_eq!((first.problem(), &first.text), (second.problem(), &second.text), "a refusal is remembered, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_transfers_on_several_instances_end_and_keep_every_unit() {
    const SKUS: [&str; 4] = ["A", "B", "C", "D"];
    let _alone = alone().await;
    let stage = Stage::start().await;
    let instances = fleet(&stage, 2, &[("LOCK_WAIT", "5s"), ("REQUEST_TIMEOUT", "9s")]).await;
    for sku in SKUS {
        instances[0].put(sku, 20).await;
    }
    // Each pair in both directions. Without a common order of locks, two transfers would wait for each other.
    let pairs: Vec<_> = (0..SKUS.len())
        .flat_map(|from| (0..SKUS.len()).filter(move |to| *to != from).map(move |to| (SKUS[from], SKUS[to])))
        .collect();
    let all = (0..600).map(|number| {
        let (from, to) = pairs[number % pairs.len()];
        transfer(&instances[number % 2], from, to, i64::try_from(number % 7).unwrap() + 1)
    });
    let answers: Vec<_> = stream::iter(all).buffer_unordered(32).collect().await;
    let mut statuses = BTreeMap::<u16, u64>::new();
    for answer in &answers {
        *statuses.entry(answer.status.as_u16()).or_default() += 1;
    }
    let applied = statuses.get(&200).copied().unwrap_or_default();
    assert_eq!(applied + statuses.get(&409).copied().unwrap_or_default(), 600, "{statuses:?}");
    let movements = stage.count("select count(*) from movement where kind = 'transfer'").await;
    assert_eq!(u64::try_from(movements).unwrap(), 2 * applied, "{statuses:?}");
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 80);
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(stage.count(deadlocks).await, 0);
    assert_conserved(&stage).await;
    within(Duration::from_secs(5), "every lock is free", async || lock_keys(&stage).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_an_instance_in_the_middle_of_transfers_loses_no_unit_and_doubles_none() {
    const TRANSFERS: usize = 1_000;
    let _alone = alone().await;
    let stage = Stage::start().await;
    // The wait is nearly as long as a lease. A request gets a lock of the killed instance at its first or second try.
    let settings = [
        ("LOCK_WAIT", "4s"),
        ("DATABASE_ACQUIRE_TIMEOUT", "500ms"),
        ("STATEMENT_TIMEOUT", "500ms"),
        ("REQUEST_TIMEOUT", "5250ms"),
        ("LOCK_LEASE", "5250ms"),
    ];
    let mut instances = fleet(&stage, 2, &settings).await;
    let doomed = instances.remove(0);
    let survivor = instances.remove(0);
    for number in 0..5 {
        survivor.put(&format!("S{number}"), 1_000).await;
    }
    let written = async || stage.count("select count(*) from movement where kind = 'transfer'").await;
    // Each transfer goes to the doomed instance first. Without an answer it goes, with the same key, to the survivor.
    let send = async |number: usize| {
        let (from, to) = (number % 5, (number + 1 + number / 5 % 4) % 5);
        let body = json!({
            "from": format!("S{from}"), "to": format!("S{to}"), "quantity": 1, "reference": format!("t{number}"),
        });
        let key = format!("key-{number}");
        let first = asked(&doomed, &body).header("idempotency-key", &key).send().await;
        if let Ok(response) = first
            && response.status() == StatusCode::OK
        {
            return;
        }
        within(Duration::from_secs(30), "the other instance does it", async || {
            let again = Answer::to(asked(&survivor, &body).header("idempotency-key", &key)).await;
            assert!(again.status == 200 || again.status == 423, "{again:?}");
            again.status == 200
        })
        .await;
    };
    let kill = async {
        within(Duration::from_secs(60), "a third of them", async || written().await >= 700).await;
        doomed.kill_under_way();
        written().await
    };
    let (at_kill, ()) = tokio::join!(kill, async {
        stream::iter((0..TRANSFERS).map(send)).buffer_unordered(16).collect::<()>().await;
    });
    assert!(at_kill < 1_800, "all was nearly over: {at_kill}");
    assert_eq!(written().await, 2 * i64::try_from(TRANSFERS).unwrap(), "each was told to be done, and was done once");
    let once = "select count(*) from (select from movement where kind = 'transfer' group by reference having count(*) = 2) as pairs";
    assert_eq!(stage.count(once).await, i64::try_from(TRANSFERS).unwrap());
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 5_000);
    assert_conserved(&stage).await;
}
