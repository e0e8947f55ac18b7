//! Spans as a collector gets them.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};

use crate::stage::{Answer, Stage, bare_command, outcome, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector of OTLP over HTTP that keeps what it gets. Dropping it closes it.
struct Collector {
    endpoint: String,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    _server: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&requests));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { endpoint, requests, _server: server }
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The span of this name below `parent`, once it is there.
    async fn child(&self, parent: &Span, name: &str) -> Span {
        self.find(name, |span| span.parent_span_id == parent.span_id).await
    }

    async fn find(&self, name: &str, is_it: impl Fn(&Span) -> bool + Sync) -> Span {
        let find = || self.spans().into_iter().find(|span| span.name == name && is_it(span));
        until(name, async || find().is_some()).await;
        find().unwrap()
    }
}

async fn keep(State(requests): State<Arc<Mutex<Vec<ExportTraceServiceRequest>>>>, body: Bytes) {
    requests.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
}

fn value(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    let value = found.unwrap_or_else(|| panic!("no {name} in {attributes:?}")).value.clone().unwrap().value.unwrap();
    match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

/// A file of order lines.
fn orders(name: &str, lines: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.csv", std::process::id()));
    std::fs::write(&path, format!("InvoiceNo,StockCode,Description,Quantity\n{lines}")).unwrap();
    path
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn the_trace_of_a_caller_goes_on_through_lock_fence_statements_cache_and_flash() {
    let (stage, collector) = tokio::join!(Stage::start(), Collector::start());
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
    let instance = stage.serve(&settings).await;
    assert_eq!(instance.put("A", 9).await.status, 201);

    let adjust = |flags: &str| {
        let parent = format!("00-{TRACE}-{PARENT}-{flags}");
        Answer::to(instance.adjustment("A", -1).header("traceparent", parent))
    };
    let unsampled = adjust("00").await;
    assert_eq!(unsampled.status, 200);
    let adjusted = adjust("01").await;
    let server = collector.find("POST /stock/{sku}/adjustments", |_| true).await;
    assert_eq!((hex(&server.trace_id), hex(&server.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!(server.kind, SpanKind::Server as i32);
    assert_eq!(value(&server.attributes, "http.response.status_code"), "200");
    let wait = collector.child(&server, "lock.wait").await;
    assert_eq!((value(&wait.attributes, "lock"), value(&wait.attributes, "mode")), ("stock".into(), "write".into()));
    let hold = collector.child(&server, "lock.hold").await;
    assert_eq!(value(&hold.attributes, "token"), adjusted.json()["fencing_token"].to_string());
    assert!(wait.end_time_unix_nano <= hold.end_time_unix_nano, "{wait:?} {hold:?}");
    let group = collector.child(&server, "group_commit").await;
    for name in ["fence", "sql", "commit"] {
        let span = collector.child(&group, name).await;
        assert!(span.start_time_unix_nano >= hold.start_time_unix_nano, "{name} is under the lock");
    }

    assert_eq!(instance.get("/stock/A").await.status, 200);
    let server = collector.find("GET /stock/{sku}", |_| true).await;
    assert!(server.parent_span_id.is_empty() && hex(&server.trace_id) != TRACE, "a trace of its own: {server:?}");
    let lookup = collector.child(&server, "cache.lookup").await;
    let load = collector.child(&lookup, "cache.load").await;
    assert_eq!(value(&collector.child(&load, "sql").await.attributes, "query"), "stock.find");

    let sale = r#"{"quantity":2,"per_customer":1,"ends_at":"2999-01-01T00:00:00Z"}"#;
    let open = instance.request(reqwest::Method::PUT, "/flash/A").header("content-type", "application/json");
    assert_eq!(Answer::to(open.body(sale)).await.status, 201);
    let reserve = instance.request(reqwest::Method::POST, "/flash/A/reservations");
    let reserved = Answer::to(reserve.json(&serde_json::json!({ "customer": "c", "quantity": 1 }))).await;
    assert_eq!(reserved.status, 201, "{reserved:?}");
    let server = collector.find("POST /flash/{sku}/reservations", |_| true).await;
    let reserve = collector.child(&server, "flash.reserve").await;
    let stored = collector.find("flash.store", |_| true).await;
    assert_eq!(value(&stored.attributes, "entries"), "1");
    // The reservation is stored after the answer, by any instance, so the stream carries its span.
    let links: Vec<_> = stored.links.iter().map(|link| (link.trace_id.clone(), link.span_id.clone())).collect();
    assert_eq!(links, [(reserve.trace_id, reserve.span_id)]);

    let of_caller = collector.spans().into_iter().filter(|span| hex(&span.parent_span_id) == PARENT).count();
    assert_eq!(of_caller, 1, "the caller did not sample one of the requests");
    let resource = collector.requests.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(value(&resource.attributes, "service.name"), "inventory");
}

#[tokio::test]
async fn the_span_of_a_request_is_named_by_no_word_of_the_client_and_an_error_has_its_status() {
    let (stage, collector) = tokio::join!(Stage::start(), Collector::start());
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
    let instance = stage.serve(&settings).await;
    let brewed = Answer::to(instance.request("BREW".parse().unwrap(), "/stock/A")).await;
    assert_eq!(brewed.status, 405, "{brewed:?}");
    let server = collector.find("HTTP /stock/{sku}", |_| true).await;
    let [method, scheme] = ["http.request.method", "url.scheme"].map(|name| value(&server.attributes, name));
    assert_eq!((method.as_str(), scheme.as_str()), ("_OTHER", "http"));
    assert_eq!(value(&server.attributes, "http.request.method_original"), "BREW");
    assert!(server.attributes.iter().all(|attribute| attribute.key != "error.type"), "{server:?}");

    stage.postgres.kill().await.unwrap();
    until("the database is away", async || instance.get("/readyz").await.status == 503).await;
    let is_error = |span: &Span| span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    let server = collector.find("GET /readyz", is_error).await;
    assert_eq!(value(&server.attributes, "error.type"), "503");
}

#[tokio::test]
async fn the_trace_of_an_order_line_begins_in_the_replay_and_goes_on_in_the_service() {
    let (stage, collector) = tokio::join!(Stage::start(), Collector::start());
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "20")];
    let instance = stage.serve(&settings).await;
    assert_eq!(instance.put("A", 9).await.status, 201);
    let orders = orders("traced", "1,A,x,1\n2,absent,x,1\n");
    let mut replay = bare_command("replay");
    replay.args(["--target", &instance.url, "--browse", "1", "--csv"]).arg(&orders);
    // All of its spans are sent at its end.
    replay.envs([settings[0], ("OTEL_BSP_SCHEDULE_DELAY", "3600000"), ("OTEL_SERVICE_NAME", "replay")]);
    let (_, output) = outcome(replay).await;
    assert!(output.contains("applied 1, refused 0, failed 1, unknown 0"), "{output}");

    let line = collector.find("replay.line", |span| value(&span.attributes, "sku") == "A").await;
    assert!(line.parent_span_id.is_empty(), "{line:?}");
    let sent = collector.child(&line, "POST /stock/{sku}/adjustments").await;
    assert_eq!(sent.kind, SpanKind::Client as i32);
    assert_eq!(value(&sent.attributes, "http.response.status_code"), "200");
    assert_eq!(value(&sent.attributes, "url.full"), format!("{}/stock/A/adjustments", instance.url));
    let served = collector.child(&sent, "POST /stock/{sku}/adjustments").await;
    assert_eq!((served.kind, &served.trace_id), (SpanKind::Server as i32, &line.trace_id));
    let refused = collector.find("replay.line", |span| value(&span.attributes, "sku") == "absent").await;
    let refused = collector.child(&refused, "POST /stock/{sku}/adjustments").await;
    assert_eq!(value(&refused.attributes, "error.type"), "404");
    let read = collector.find("GET /stock/{sku}", |span| span.kind == SpanKind::Client as i32).await;
    assert!(read.parent_span_id.is_empty(), "a visitor is no part of a line: {read:?}");
    collector.child(&read, "GET /stock/{sku}").await;
}

#[tokio::test]
async fn each_attempt_of_an_order_line_has_a_span_and_one_whose_answer_is_cut_off_is_an_error() {
    let (stage, collector) = tokio::join!(Stage::start(), Collector::start());
    let instance = stage.serve(&[]).await;
    assert_eq!(instance.put("A", 9).await.status, 201);
    let (cut, mut server) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), JoinSet::new());
    let port = cut.local_addr().unwrap().port();
    let (asked, mut was_asked) = tokio::sync::oneshot::channel();
    server.spawn(async move {
        let (mut connection, _) = cut.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0);
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{").await.unwrap();
        asked.send(String::from_utf8(request).unwrap()).unwrap();
    });
    let orders = orders("cut", "1,A,x,1\n");
    let mut replay = bare_command("replay");
    replay.args(["--target", &format!("http://127.0.0.1:{port}"), "--target", &instance.url, "--csv"]).arg(&orders);
    replay.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    let (_, output) = outcome(replay).await;
    assert!(output.contains("applied 1, refused 0, failed 0, unknown 0"), "{output}");

    let line = collector.find("replay.line", |_| true).await;
    let name = "POST /stock/{sku}/adjustments";
    let of_line =
        |span: &Span, port: &str| span.parent_span_id == line.span_id && value(&span.attributes, "server.port") == port;
    let lost = collector.find(name, |span| of_line(span, &port.to_string())).await;
    let attributes = ["http.request.method", "url.template", "server.address", "error.type"];
    assert_eq!(
        attributes.map(|attribute| value(&lost.attributes, attribute)),
        ["POST", "/stock/{sku}/adjustments", "127.0.0.1", "no answer"]
    );
    assert_eq!(lost.status.unwrap().code, StatusCode::Error as i32);
    let request = was_asked.try_recv().unwrap().to_lowercase();
    assert!(
        request.contains(&format!("traceparent: 00-{}-{}-01", hex(&lost.trace_id), hex(&lost.span_id))),
        "{request}"
    );
    assert!(!request.contains("tracestate"), "there is none: {request}");
    let (_, other) = instance.url.rsplit_once(':').unwrap();
    let second = collector.find(name, |span| of_line(span, other)).await;
    assert_eq!(value(&second.attributes, "http.response.status_code"), "200");
    assert_eq!(second.status.map_or(0, |status| status.code), StatusCode::Unset as i32);
    assert!(second.start_time_unix_nano >= lost.end_time_unix_nano);
}

#[tokio::test]
async fn the_last_spans_are_sent_before_the_end_and_a_silent_collector_does_not_delay_it() {
    let (stage, collector) = tokio::join!(Stage::start(), Collector::start());
    // Nothing is sent before the end: the delay is an hour.
    let settings = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*format!("{}/v1/traces", collector.endpoint)),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
        ("OTEL_SERVICE_NAME", "shop"),
    ];
    let mut instance = stage.serve(&settings).await;
    assert_eq!(instance.put("A", 9).await.status, 201);
    assert!(collector.spans().is_empty());
    instance.terminate();
    assert!(instance.ended().await.success());
    collector.find("PUT /stock/{sku}", |_| true).await;
    let resource = collector.requests.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(value(&resource.attributes, "service.name"), "shop");

    // The listener takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut instance = stage.serve(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
    assert_eq!(instance.put("A", 9).await.status, 200);
    instance.terminate();
    // The exporter's own time-out is 10 s.
    let ended = timeout(Duration::from_secs(9), instance.ended()).await;
    assert!(ended.expect("it does not wait for the collector").success());
    assert!(instance.log().contains("the last spans were not sent"), "{}", instance.log());
}

#[tokio::test]
async fn what_the_exporter_can_not_do_is_refused_with_the_remedy() {
    for (name, value, remedy) in [
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "4318"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
        ("OTEL_BSP_SCHEDULE_DELAY", "5s", "milliseconds"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceid_ratio", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1%", "from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "10", "from 0 to 1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector:4318/v1/traces", "without TLS"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318", "http://HOST:4318"),
    ] {
        let mut command = bare_command("serve");
        command.env("DATABASE_URL", "postgres://127.0.0.1:1/stock").env("REDIS_URL", "redis://127.0.0.1:1");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317").env("OTEL_TRACES_SAMPLER", "traceidratio");
        let (status, output) = outcome({
            command.env(name, value);
            command
        })
        .await;
        assert_eq!(status.code(), Some(78), "{name}={value}: {output}");
        assert!(output.contains(name) && output.contains(remedy), "{output}");
    }
}
