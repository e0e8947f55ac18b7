//! Several principals behind one URL. Each gets its own answer, whatever tag a client sends.

use std::{borrow::Cow, convert::Infallible, time::Duration};

use axum::{
    Router,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header::COOKIE, request::Parts},
    routing::get,
};
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis, Resource,
    cache::CacheBuilder,
    extract::{CachePolicy, Cached, EntityTag, FromCache},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::service::header;
use crate::world::{World, cached, online};

const LIMIT: Duration = Duration::from_secs(20);

/// The principal of a request, by its cookie.
#[derive(Clone, Debug)]
struct Session(String);

impl Resource for Session {
    const KIND: &'static str = "session";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Session {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let cookie = parts.headers.get(COOKIE).and_then(|value| value.to_str().ok());
        Ok(Self(cookie.unwrap_or("nobody").to_owned()))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Profile {
    name: String,
    balance: u64,
}

#[derive(Clone)]
struct App {
    profiles: Cache<Session, Profile>,
}

impl FromCache<App> for Profile {
    type Key = Session;

    fn cache(app: &App) -> &Cache<Session, Self> {
        &app.profiles
    }

    /// Each profile has version 1, so that versions do not tell profiles apart.
    fn version(&self) -> Option<u64> {
        Some(1)
    }

    fn cache_policy(parts: &Parts, _: &App) -> CachePolicy {
        match parts.uri.path() {
            "/fresh" => {
                CachePolicy::private().max_age(Duration::from_secs(60)).vary(HeaderValue::from_static("cookie"))
            }
            _ => CachePolicy::default(),
        }
    }
}

async fn me(profile: Cached<Profile>) -> Cached<Profile> {
    profile
}

/// A view that depends on the user, of a value that does not depend on the user.
async fn report(headers: HeaderMap, profile: Cached<Profile>) -> Cached<Vec<u64>> {
    let is_auditor = headers.contains_key("x-auditor");
    profile.map(|profile| if is_auditor { vec![profile.balance] } else { Vec::new() })
}

fn profiles(builder: CacheBuilder<Session, Profile>) -> CacheBuilder<Session, Profile> {
    let load = |session: Session| async move { Ok::<_, Infallible>(Some(Profile { balance: 7, name: session.0 })) };
    builder.loader(load)
}

struct Service {
    world: World,
    address: String,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Service {
    async fn start() -> Self {
        let world = World::start().await;
        let profiles = online(profiles(Cache::builder(&Redis::connect(world.url()).await.unwrap()))).await;
        let router = Router::new()
            .route("/me", get(me))
            .route("/fresh", get(me))
            .route("/report", get(report))
            .with_state(App { profiles });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        let serve = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        let mut task = JoinSet::new();
        task.spawn(async { serve.await.unwrap() });
        Self { world, address, stop, task }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
        let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        let request = client.get(format!("http://{}{path}", self.address));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        (response.status(), response.headers().clone(), response.text().await.unwrap())
    }

    /// The head of the answer, as it is on the wire.
    async fn head(&self, method: &str, path: &str, tag: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: alice\r\nif-none-match: {tag}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(LIMIT, self.task.join_all()).await.unwrap();
        self.world.end().await;
    }
}

#[tokio::test]
async fn the_tag_of_one_principal_says_nothing_to_another() {
    let service = Service::start().await;
    let (status, headers, body) = service.get("/me", &[("cookie", "alice")]).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"name":"alice","balance":7}"#));
    assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
    let alices = header(&headers, "etag").unwrap();
    assert_eq!(service.get("/me", &[("cookie", "alice"), ("if-none-match", alices)]).await.0, StatusCode::NOT_MODIFIED);
    for tags in [alices, &format!("W/{alices}"), "\"1\""] {
        let (status, headers, body) = service.get("/me", &[("cookie", "bob"), ("if-none-match", tags)]).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"name":"bob","balance":7}"#), "{tags}");
        assert_ne!(header(&headers, "etag"), Some(alices));
    }
    service.end().await;
}

#[tokio::test]
async fn a_view_that_depends_on_who_asks_has_a_tag_for_each() {
    let service = Service::start().await;
    let auditor = ("x-auditor", "yes");
    let (_, headers, body) = service.get("/report", &[auditor]).await;
    assert_eq!(body, "[7]");
    let tag = header(&headers, "etag").unwrap();
    assert_eq!(service.get("/report", &[auditor, ("if-none-match", tag)]).await.0, StatusCode::NOT_MODIFIED);
    let (status, _, body) = service.get("/report", &[("if-none-match", tag)]).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "[]"));
    service.end().await;
}

#[tokio::test]
async fn a_304_says_what_a_200_says_and_nothing_of_a_length() {
    let service = Service::start().await;
    let (_, headers, _) = service.get("/fresh", &[("cookie", "alice")]).await;
    let tag = header(&headers, "etag").unwrap();
    let (control, vary) = ("private, max-age=60", "cookie");
    assert_eq!((header(&headers, "cache-control"), header(&headers, "vary")), (Some(control), Some(vary)));
    for method in ["GET", "HEAD"] {
        let answer = service.head(method, "/fresh", tag).await;
        assert!(answer.starts_with("HTTP/1.1 304 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        for line in [format!("etag: {tag}"), format!("cache-control: {control}"), format!("vary: {vary}")] {
            assert!(answer.contains(&format!("\r\n{line}\r\n")), "{line}: {answer}");
        }
        assert!(!answer.contains("content-length") && !answer.contains("transfer-encoding"), "{method}: {answer}");
    }
    service.end().await;
}

/// The tag of alice's first version.
fn tag(builder: CacheBuilder<Session, Profile>) -> EntityTag {
    let app = App { profiles: cached(profiles(builder).build()) };
    EntityTag::of::<Profile, _>(&app, &Session("alice".to_owned()), 1).unwrap()
}

#[tokio::test]
async fn instances_agree_on_a_tag_and_what_is_shown_otherwise_has_another() {
    let ours = tag(Cache::memory());
    assert_eq!(tag(Cache::memory().ttl(LIMIT..=LIMIT)), ours);
    for other in [tag(Cache::memory().schema(1)), tag(Cache::memory().name("others"))] {
        assert_ne!(other, ours);
    }
}
