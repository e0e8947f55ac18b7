use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use inventory::replay::{Plan, Replay, RetryLimits, Source, Verdict, replay};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use crate::stock_db::line;

/// Attempts by SKU: the instance that got it, and the key it came with.
type Attempts = Arc<Mutex<HashMap<String, Vec<(usize, String)>>>>;

/// A service whose answers depend on the SKU, on two ports.
struct ScriptedService {
    targets: Vec<reqwest::Url>,
    attempts: Attempts,
    _servers: JoinSet<std::io::Result<()>>,
}

impl ScriptedService {
    async fn start() -> Self {
        let attempts = Attempts::default();
        let (mut targets, mut servers) = (Vec::new(), JoinSet::new());
        for instance in 0..2 {
            let app = Router::new()
                .route("/stock/{sku}/adjustments", post(adjust))
                .route(
                    "/stock/{sku}",
                    get(|| async { ([("cache-status", "stockade; hit; ttl=9; detail=redis")], "{}") }),
                )
                .with_state((instance, Arc::clone(&attempts)));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            targets.push(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
            servers.spawn(async move { axum::serve(listener, app).await });
        }
        Self { targets, attempts, _servers: servers }
    }

    async fn replay(&self, skus: &[&str], retries: u32) -> Replay {
        replay(self.plan(skus, retries)).await.unwrap()
    }

    fn plan(&self, skus: &[&str], retries: u32) -> Plan {
        Plan {
            lines: (1..).zip(skus).map(|(number, sku)| line(number, sku, -1)).collect(),
            skipped: BTreeMap::new(),
            targets: self.targets.clone(),
            ops: Vec::new(),
            concurrency: 4.try_into().unwrap(),
            rate: None,
            browse: 1.0,
            limits: RetryLimits { retries, total: Duration::from_secs(30) },
            journal: None,
            run: "run".to_owned(),
        }
    }
}

async fn adjust(
    State((instance, attempts)): State<(usize, Attempts)>,
    Path(sku): Path<String>,
    headers: HeaderMap,
) -> Response {
    let earlier = {
        let mut attempts = attempts.lock().unwrap();
        let attempts = attempts.entry(sku.clone()).or_default();
        attempts.push((instance, headers["idempotency-key"].to_str().unwrap().to_owned()));
        attempts.len() - 1
    };
    let problem = |status: StatusCode, kind: &str, applied: Option<bool>| {
        let body = json!({"type": format!("/problems/{kind}"), "applied": applied, "retry_after_ms": 1});
        (status, Json(body)).into_response()
    };
    let applied = Json(json!({"sku": sku, "quantity": 4, "version": 2, "fencing_token": 17}));
    match (sku.as_str(), earlier) {
        ("busy", 0) | ("lost, then busy", 1..) | ("busy for ever", _) => {
            problem(StatusCode::LOCKED, "lock-timeout", Some(false))
        }
        ("full", 0) => problem(StatusCode::TOO_MANY_REQUESTS, "queue-full", Some(false)),
        ("answer lost" | "lost, then busy", 0) => problem(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", None),
        ("answer lost", _) => ([("idempotent-replayed", "true")], applied).into_response(),
        ("sold out", _) => problem(StatusCode::CONFLICT, "insufficient-stock", Some(false)),
        ("no such", _) => problem(StatusCode::NOT_FOUND, "not-found", Some(false)),
        ("broken", _) => problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", None),
        _ => applied.into_response(),
    }
}

#[tokio::test]
async fn every_answer_leads_to_the_verdict_that_it_proves() {
    let service = ScriptedService::start().await;
    let cases = [
        ("85123A", Verdict::Applied),
        ("BANK CHARGES", Verdict::Applied),
        ("a/b?c%d", Verdict::Applied),
        ("busy", Verdict::Applied),
        ("full", Verdict::Applied),
        ("answer lost", Verdict::Applied),
        ("sold out", Verdict::Refused),
        ("no such", Verdict::Failed),
        ("busy for ever", Verdict::Failed),
        ("lost, then busy", Verdict::Unknown),
        ("broken", Verdict::Unknown),
    ];
    let replay = service.replay(&cases.map(|(sku, _)| sku), 3).await;
    for ((sku, expected), verdict) in cases.iter().zip(&replay.verdicts) {
        assert_eq!(verdict, expected, "{sku}");
    }
    let lines = &replay.report.lines;
    assert_eq!((lines.applied, lines.refused, lines.failed, lines.unknown), (6, 1, 2, 2));
    assert_eq!((lines.replayed, lines.retries), (1, 3 + 3 + 3));
    let failures = [("internal", 1), ("lock-timeout", 2), ("not-found", 1)];
    assert_eq!(lines.failures, failures.map(|(why, count)| (why.into(), count)).into());
    assert_eq!((replay.report.get.count, replay.report.reads.answers.from(Source::Redis)), (11, 11));

    let attempts = service.attempts.lock().unwrap();
    assert_eq!(attempts["no such"].len(), 1, "a final answer is not asked for again");
    assert_eq!(attempts["busy for ever"].len(), 4, "the retries are bounded");
    assert!(attempts.contains_key("a/b?c%d"), "a SKU arrives as it was sent: {:?}", attempts.keys());
    for (sku, attempts) in attempts.iter() {
        assert!(attempts.iter().all(|(_, key)| *key == attempts[0].1), "{sku}: one line, one key");
        let turns = attempts.windows(2).all(|pair| pair[0].0 != pair[1].0);
        assert!(turns, "{sku}: every attempt goes to the next instance: {attempts:?}");
    }
}

#[tokio::test]
async fn an_invoice_that_no_header_can_carry_has_a_key_of_its_own() {
    let service = ScriptedService::start().await;
    let mut plan = service.plan(&["ok", "ok"], 0);
    let mut lines = plan.lines.to_vec();
    for (line, invoice) in lines.iter_mut().zip(["A 7", "Ä 7"]) {
        line.invoice = invoice.to_owned();
    }
    plan.lines = lines.into();
    assert_eq!(replay(plan).await.unwrap().verdicts, [Verdict::Applied; 2]);
    let attempts = service.attempts.lock().unwrap();
    let keys: Vec<_> = attempts["ok"].iter().map(|(_, key)| key).collect();
    assert!(keys.len() == 2 && keys[0] != keys[1] && keys.iter().all(|key| key.starts_with("run:")), "{keys:?}");
}

/// The operators' port answers once, and is gone when the lines are sent.
#[tokio::test]
async fn the_report_is_made_although_an_instance_is_gone_at_its_end() {
    let service = ScriptedService::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ops = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let mut once = JoinSet::new();
    once.spawn(async move {
        let (mut socket, _) = listener.accept().await?;
        drop(listener);
        let _head = socket.read(&mut [0; 1024]).await?;
        let page = "inventory_fence_rejected_total 0\nprocess_start_time_seconds 1763668800\n";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", page.len());
        socket.write_all((head + page).as_bytes()).await
    });
    let plan = Plan { ops: vec![ops], ..service.plan(&["ok"], 0) };
    let Replay { verdicts, report, .. } = replay(plan).await.unwrap();
    assert_eq!((verdicts, report.fleet), (vec![Verdict::Applied], None));
}

#[tokio::test]
async fn an_instance_that_is_gone_is_gone_round() {
    let mut service = ScriptedService::start().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", nobody.local_addr().unwrap()).parse().unwrap();
    drop(nobody);
    service.targets[0] = gone;
    let skus = ["a", "b", "c", "d"];
    let replay = service.replay(&skus, 3).await;
    assert_eq!(replay.verdicts, [Verdict::Applied; 4]);
    assert_eq!(replay.report.lines.retries, 2);
    assert!(replay.report.reads.failed >= 1, "reads are tried once");
    assert_eq!(replay.report.reads.failures["no connection"], replay.report.reads.failed);
}
