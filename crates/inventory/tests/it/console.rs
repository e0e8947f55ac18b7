//! The console: its files, and its stream of snapshots.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use inventory::domain::Sku;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Method, Response};
use serde_json::Value;
use stockade::{Locks, Redis};
use tokio::time::timeout;

use crate::stage::{Answer, Instance, Stage, until};

/// The largest page, all of its files together, in bytes.
const LIMIT: usize = 250_000;

/// How long a stream may be silent. A snapshot is due every second.
const SILENCE: Duration = Duration::from_secs(20);

/// A stream of server-sent events.
pub(crate) struct Events {
    response: Response,
    unread: String,
}

impl Events {
    /// Begins to listen, once there is a place. The client has no time-out: the stream goes on for as long as the
    /// instance does.
    async fn of(client: &Client, instance: &Instance) -> Self {
        Self::at(client, instance, "/console/events").await
    }

    /// [`Events::of`], on the path `path`.
    pub(crate) async fn at(client: &Client, instance: &Instance, path: &str) -> Self {
        let listening = Mutex::new(None);
        until("a place is free", async || {
            let response = client.get(format!("{}{path}", instance.ops)).send().await.unwrap();
            let is_ok = response.status() == 200;
            *listening.lock().unwrap() = is_ok.then_some(response);
            is_ok
        })
        .await;
        let response = listening.into_inner().unwrap().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: String::new() }
    }

    /// The next snapshot; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let snapshot = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
                self.unread = rest.to_owned();
                return Some(snapshot);
            }
            let chunk = timeout(SILENCE, self.response.chunk()).await.expect("a snapshot, or the end");
            let chunk = chunk.ok()??;
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Waits for a snapshot for which `wanted` holds.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..30 {
            last = self.next().await.unwrap();
            if wanted(&last) {
                return last;
            }
        }
        panic!("{what}: not within 30 snapshots, the last of them: {last}");
    }
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

/// The paths that a file of the page requests.
fn mentioned(file: &str) -> BTreeSet<String> {
    let quoted = file.split('"').skip(1).step_by(2);
    let paths = quoted.filter_map(|path| match path.strip_prefix("./") {
        Some(module) if module.ends_with(".js") => Some(format!("/console/{module}")),
        _ => path.starts_with("/console/").then(|| path.to_owned()),
    });
    paths.filter(|path| path != "/console/fleet").collect()
}

#[tokio::test]
async fn the_page_is_whole_small_and_runs_nothing_that_is_not_its_own() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("ADMIN_TOKEN", "")]).await;
    let client = client();
    let (mut open, mut seen, mut size) = (vec!["/".to_owned()], BTreeSet::new(), 0);
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let url = format!("{}{path}", instance.ops);
        let file = Answer::to(client.get(&url)).await;
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!((file.header("cache-control"), file.header("x-content-type-options")), ("no-cache", "nosniff"));
        for known in [file.header("etag").to_owned(), format!("\"other\", W/{}", file.header("etag"))] {
            let again = Answer::to(client.get(&url).header("if-none-match", known)).await;
            assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("etag"), file.header("etag"), "{path}");
        }
        let other = Answer::to(client.get(&url).header("if-none-match", "\"other\"")).await;
        assert_eq!((other.status.as_u16(), &other.text), (200, &file.text), "{path}");
        size += file.text.len();
        if !path.contains("/uplot/") {
            assert!(file.text.lines().all(|line| line.chars().count() <= 160), "{path}: a line is too long to read");
            for markup in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "<style"]
            {
                assert!(!file.text.contains(markup), "{path}: {markup}");
            }
            open.extend(mentioned(&file.text));
        }
    }
    assert!(seen.len() > 10 && size < LIMIT, "{size} bytes: {seen:?}");

    // The browser requests all modules with the page, and not each one when it reads its import.
    let page = Answer::to(client.get(&instance.ops)).await;
    let links = page.header("link").split(", ");
    let announced =
        links.map(|link| link.strip_suffix(">; rel=modulepreload").unwrap().trim_start_matches('<').to_owned());
    let modules = seen.into_iter().filter(|path| path.ends_with(".js") && !path.contains("/uplot/"));
    assert_eq!(announced.collect::<BTreeSet<_>>(), modules.collect());
    assert_eq!(instance.get("/console/main.js").await.problem(), "not-found", "not on the public port");
}

#[tokio::test]
async fn snapshots_follow_what_happens_and_name_nobody() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    until("ready", async || instance.get("/readyz").await.status == 200).await;
    let mut events = Events::of(&client(), &instance).await;
    let first = events.next().await.unwrap();
    assert_eq!((&first["admin"], &first["ready"]["status"]), (&true.into(), &"ready".into()), "{first}");
    let hostile = "%3Cimg%20src=x%20onerror=alert(1)%3E";
    let written = instance.put(hostile, 10).await.status;
    let read = instance.get(&format!("/stock/{hostile}")).await.status;
    instance.put("plain-sku", 10).await;
    let moved = events
        .until("the requests are counted", |snapshot| snapshot["metrics"]["http_requests_total"]["201"] != 0.0)
        .await;
    assert!(moved["at_ms"].as_u64() > first["at_ms"].as_u64(), "{moved}");
    for name in ["img", "onerror", "plain-sku"] {
        assert!(!moved.to_string().contains(name), "{name} after {written} and {read}: {moved}");
    }
    for family in ["stockade_lock_waiters", "stockade_breaker_state", "http_request_duration_seconds_bucket"] {
        assert!(moved["metrics"][family].is_object(), "{family}: {moved}");
    }
    stage.redis.kill().await.unwrap();
    let degraded = |snapshot: &Value| snapshot["ready"]["checks"]["lock_store"] == "down";
    events.until("the loss of Redis is shown", degraded).await;
    stage.postgres.kill().await.unwrap();
    let gone = |snapshot: &Value| snapshot["problem"]["type"] == "database-unavailable";
    events.until("the loss of Postgres is shown", gone).await;
}

#[tokio::test]
async fn as_many_listen_as_may_until_the_instance_ends() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[]).await;
    let client = client();
    let mut listeners = Vec::new();
    for _ in 0..32 {
        listeners.push(Events::of(&client, &instance).await);
    }
    let url = format!("{}/console/events", instance.ops);
    let refused = client.get(&url).send().await.unwrap();
    // The body of a stream would have no end.
    assert_eq!(refused.status(), 503);
    assert_eq!(Answer::of(refused).await.problem(), "load-shed");
    drop(listeners.pop());
    listeners.push(Events::of(&client, &instance).await);
    for listener in &mut listeners {
        assert!(listener.next().await.is_some(), "all of them are told");
    }
    instance.terminate();
    for listener in &mut listeners {
        while listener.next().await.is_some() {}
    }
    assert_eq!(instance.ended().await.code(), Some(0), "{}", instance.log());
}

#[tokio::test]
async fn a_lock_with_a_name_like_markup_is_shown_and_forced_by_that_name() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let locks = Locks::new(&Redis::connect(stage.redis.url()).await.unwrap());
    until("the test has its locks", async || !locks.is_degraded()).await;
    let sku = Sku::new("<img src=x onerror=\"alert(1)\">/../%").unwrap();
    let held = locks.write(&sku).acquire().await.unwrap();
    let transaction = held.fence().begin(&stage.pool).await.unwrap();

    let list = Answer::to(instance.admin(Method::GET, "/admin/locks")).await;
    assert_eq!(list.header("content-type"), "application/json");
    let name = list.json()["locks"][0]["resource"].as_str().unwrap().to_owned();
    // As `encodeURIComponent` writes it.
    let path = format!("/admin/locks/{}?now=false", utf8_percent_encode(&name, NON_ALPHANUMERIC));
    let shown = Answer::to(instance.admin(Method::GET, path.split('?').next().unwrap())).await.json();
    assert_eq!((&shown["resource"], shown["holders"].as_array().map(Vec::len)), (&name.into(), Some(1)), "{shown}");
    let end = async {
        stage.until_one_waits_for_a_row().await;
        transaction.rollback().await.unwrap();
    };
    let (forced, ()) = tokio::join!(Answer::to(instance.admin(Method::DELETE, &path)), end);
    assert_eq!((forced.status.as_u16(), forced.json()["holders"].as_u64()), (200, Some(1)), "{forced:?}");
    assert!(held.fence().begin(&stage.pool).await.is_err(), "its fence has a token of a later lock");
}
