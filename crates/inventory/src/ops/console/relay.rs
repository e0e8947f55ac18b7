use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::BytesMut;
use parking_lot::Mutex;
use reqwest::{Client, StatusCode, redirect::Policy};
use serde::Deserialize;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};
use tokio_util::codec::{Decoder, LinesCodec};

use crate::{
    console::chain,
    fleet::{Fleet, LEASE, MOST, Member},
};

/// How long another instance may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// How long the stream of another instance may be silent. A snapshot is due every second.
const SILENCE: Duration = Duration::from_secs(5);

/// The pause between the end of a stream and the next attempt.
const AGAIN: Duration = Duration::from_secs(3);

/// The largest snapshot, in bytes. One has about 10 KB.
const LARGEST: usize = 256 * 1024;

/// The snapshots of the other instances. Dropping the relay ends their streams.
///
/// The relay asks only addresses that instances announced in Redis, only for `/console/events`, and without redirects.
/// It passes an answer on only if it is a snapshot of the instance that announced the address. It sends nothing secret.
#[derive(Debug)]
pub(super) struct Relay {
    client: Option<Client>,
    streams: HashMap<String, Stream>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Stream {
    heard: Arc<Mutex<Last>>,
    task: AbortHandle,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The last snapshot of another instance, and the last trouble with its stream.
#[derive(Clone, Debug, Default)]
struct Last {
    snapshot: Option<(Arc<str>, Instant)>,
    trouble: Option<State>,
}

/// The state of another instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its snapshots arrive.
    Live,
    /// It announces itself, and sends no snapshots now.
    Silent,
    /// It refuses: it has as many listeners as it allows.
    Refused,
    /// Something else answers at its address.
    Stranger,
    /// It announced no address.
    NoAddress,
    /// It does not announce itself any more.
    Gone,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Silent => "silent",
            Self::Refused => "refused",
            Self::Stranger => "stranger",
            Self::NoAddress => "no_address",
            Self::Gone => "gone",
        }
    }
}

/// Another instance, now.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) member: Member,
    pub(super) state: State,
    /// The time since its last snapshot, or else since it announced itself.
    pub(super) silent: Duration,
    /// Its newest snapshot, while it is live.
    pub(super) snapshot: Option<Arc<str>>,
}

impl Relay {
    pub(super) fn new() -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT).build();
        let refused =
            |error: &reqwest::Error| tracing::error!(error = %chain(error), "the console can't ask other instances");
        let client = client.inspect_err(refused).ok();
        Self { client, streams: HashMap::new(), tasks: JoinSet::new() }
    }

    /// The other instances now. Begins to listen to new ones, and ends the streams of those that are gone.
    pub(super) fn look(&mut self, fleet: &Fleet) -> Vec<Other> {
        while self.tasks.try_join_next().is_some() {}
        let members = fleet.others();
        self.streams.retain(|id, _| members.iter().any(|member| member.id == *id));
        members.into_iter().take(MOST).map(|member| self.other(member)).collect()
    }

    fn other(&mut self, member: Member) -> Other {
        if member.age < LEASE {
            self.listen(&member);
        }
        let heard = self.streams.get(&member.id).map(|stream| stream.heard.lock().clone());
        let Last { snapshot, trouble } = heard.unwrap_or_default();
        let silent = snapshot.as_ref().map_or(member.age, |(_, at)| at.elapsed());
        let state = match trouble {
            None if snapshot.is_some() && silent < SILENCE => State::Live,
            _ if member.age >= LEASE => State::Gone,
            _ if member.address.is_none() => State::NoAddress,
            Some(trouble) => trouble,
            None => State::Silent,
        };
        if state == State::Gone {
            self.streams.remove(&member.id);
            // The stream ends, and with it the time of its last snapshot.
            let silent = silent.min(member.age);
            return Other { member, state, silent, snapshot: None };
        }
        let snapshot = snapshot.filter(|_| state == State::Live).map(|(text, _)| text);
        Other { member, state, silent, snapshot }
    }

    fn listen(&mut self, member: &Member) {
        let (Some(client), Some(address)) = (&self.client, &member.address) else { return };
        if self.streams.contains_key(&member.id) || self.streams.len() >= MOST {
            return;
        }
        let heard = Arc::<Mutex<Last>>::default();
        let (url, id) = (format!("http://{address}/console/events"), member.id.clone());
        let task = self.tasks.spawn(follow(client.clone(), url, id, Arc::clone(&heard)));
        self.streams.insert(member.id.clone(), Stream { heard, task });
    }
}

/// Listens to an instance, again and again, until it is aborted.
async fn follow(client: Client, url: String, id: String, heard: Arc<Mutex<Last>>) {
    loop {
        let trouble = events(&client, &url, &id, &heard).await.unwrap_or(State::Silent);
        heard.lock().trouble = Some(trouble);
        sleep(AGAIN).await;
    }
}

/// Notes every snapshot of a stream until it ends. Returns the fault of an answer that is no stream of snapshots.
async fn events(client: &Client, url: &str, id: &str, heard: &Mutex<Last>) -> Option<State> {
    let response = timeout(SILENCE, client.get(url).send()).await.ok()?.ok()?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::SERVICE_UNAVAILABLE => return Some(State::Refused),
        _ => return Some(State::Stranger),
    }
    let mut response = response;
    let (mut lines, mut unread) = (LinesCodec::new_with_max_length(LARGEST), BytesMut::new());
    loop {
        let chunk = timeout(SILENCE, response.chunk()).await.ok()?.ok()??;
        unread.extend_from_slice(&chunk);
        while let Some(line) = lines.decode(&mut unread).transpose() {
            let Ok(line) = line else { return Some(State::Stranger) };
            // An empty line ends an event.
            if !line.is_empty() {
                let Some(snapshot) = snapshot(&line, id) else { return Some(State::Stranger) };
                let mut last = heard.lock();
                (last.snapshot, last.trouble) = (Some((snapshot, Instant::now())), None);
            }
        }
    }
}

/// The form of a snapshot. The page reads all of this: a snapshot without it would stop the page for all instances.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the page reads it")]
struct Told<'a> {
    instance: &'a str,
    at_ms: u64,
    version: &'a str,
    ready: Option<ToldReady>,
    problem: Option<ToldProblem>,
    metrics: HashMap<String, HashMap<String, Option<f64>>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the page reads it")]
struct ToldReady {
    checks: HashMap<String, String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the page reads it")]
struct ToldProblem {
    r#type: String,
    title: String,
}

/// The snapshot of an event, whose only line is JSON, if it is of the instance `id`.
fn snapshot(line: &str, id: &str) -> Option<Arc<str>> {
    let text = line.strip_prefix("data: ")?;
    let told: Told<'_> = serde_json::from_str(text).ok()?;
    let says_how_it_is = told.ready.is_some() || told.problem.is_some();
    (told.instance == id && says_how_it_is).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_snapshot_of_the_instance_is_passed_on() {
        let read = |line: &str| snapshot(line, "aa").map(|text| text.to_string());
        let whole = r#"{"instance":"aa","at_ms":1,"version":"2","ready":{"checks":{"database":"ok"}},"problem":null,"metrics":{"a":{"":1.5,"x":null}},"more":[]}"#;
        let unready =
            r#"{"instance":"aa","at_ms":1,"version":"2","ready":null,"problem":{"type":"x","title":"X"},"metrics":{}}"#;
        for text in [whole, unready] {
            assert_eq!(read(&format!("data: {text}")).as_deref(), Some(text));
        }
        for (part, other) in [
            (r#""aa""#, r#""bb""#),
            (r#""instance""#, r#""x""#),
            (r#""at_ms":1,"#, ""),
            (r#""2""#, "2"),
            (r#"{"checks":{"database":"ok"}}"#, "null"),
            (r#"{"database":"ok"}"#, "1"),
            ("1.5", r#""1.5""#),
            (r#"{"":1.5,"x":null}"#, "{\"\":{}}"),
            ("[]}", "[]}}"),
        ] {
            let line = format!("data: {}", whole.replacen(part, other, 1));
            assert_ne!(line, format!("data: {whole}"), "{part}");
            assert_eq!(read(&line), None, "{line}");
        }
        for line in [&format!("event: {whole}"), "data: secret"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
