use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, header::CONTENT_LENGTH},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::{StreamExt, future::join, stream};
use http_body_util::BodyExt;
use stockade::{Locks, route_lock::RouteLock};
use stockade_testbed::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::support::{LIMIT, SHORT, Sku, hold, idle, is_free, request, send};

async fn echo(body: Bytes) -> Bytes {
    body
}

fn app(lock: RouteLock) -> Router {
    Router::new().route("/stock/{sku}", get(echo).post(echo).route_layer(lock))
}

/// A request whose body consists of the chunks that are sent through the channel.
fn upload(method: Method) -> (mpsc::Sender<&'static str>, Request) {
    let (chunks, receiver) = mpsc::channel(1);
    let stream = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<&'static str>| {
        receiver.recv().await.map(|chunk| (Ok::<_, Infallible>(Bytes::from(chunk)), receiver))
    });
    let mut request = request(method, "/stock/1");
    *request.body_mut() = Body::from_stream(stream);
    (chunks, request)
}

#[tokio::test]
async fn a_trickling_body_holds_nothing() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks));
    for method in [Method::POST, Method::GET] {
        let (chunks, slow) = upload(method);
        let meanwhile = async {
            for _ in 0..3 {
                chunks.send("a").await.unwrap();
                assert_eq!(locks.list(1).await.unwrap(), Vec::<String>::new());
                let answer = send(&app, request(Method::POST, "/stock/1")).await;
                assert_eq!(answer.status, 200);
            }
            drop(chunks);
        };
        let (slow, ()) = join(send(&app, slow), meanwhile).await;
        assert_eq!((slow.status.as_u16(), slow.text()), (200, "aaa"));
    }
    idle(&locks).await;
}

#[tokio::test]
async fn a_body_that_does_not_end_in_time_answers_408_without_a_lock() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).body_timeout(SHORT).wait(LIMIT));
    let _held = hold(&locks, "1").await;
    let (chunks, request) = upload(Method::POST);
    let answer = send(&app, request).await;
    assert_eq!(answer.refusal(408, "body-timeout")["applied"], false);
    assert_eq!(answer.headers["connection"], "close");
    drop(chunks);
}

#[tokio::test]
async fn a_connection_that_stalls_in_its_upload_holds_nothing_and_is_closed() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).body_timeout(SHORT));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    let served = app.clone();
    server.spawn(async move { axum::serve(listener, served).await });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"POST /stock/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\na").await.unwrap();
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, client.read_to_string(&mut answer)).await.expect("it stays open").unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("/problems/body-timeout"), "{answer}");
    idle(&locks).await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_over_the_limit_answers_413_without_a_lock() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(LIMIT));
    let _held = hold(&locks, "1").await;
    let sized = Body::from(vec![b'x'; 64 * 1024 + 1]);
    let chunked =
        Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![b'x'; 1024]))).take(65));
    for body in [sized, chunked] {
        let mut request = request(Method::POST, "/stock/1");
        *request.body_mut() = body;
        assert_eq!(send(&app, request).await.refusal(413, "body-too-large")["applied"], false);
    }
}

#[tokio::test]
async fn a_body_announced_over_the_limit_is_refused_unread() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).body_limit(10));
    let (_chunks, mut request) = upload(Method::POST);
    request.headers_mut().insert(CONTENT_LENGTH, 11.into());
    send(&app, request).await.refusal(413, "body-too-large");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_arrives() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks));
    let mut request = request(Method::POST, "/stock/1");
    *request.body_mut() = Body::from(vec![b'x'; 64 * 1024]);
    let answer = send(&app, request).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 64 * 1024));
}

#[tokio::test]
async fn a_streamed_upload_is_read_under_the_lock() {
    let locks = Locks::memory();
    let route = post(async |body: Body| body.collect().await.unwrap().to_bytes());
    let lock = RouteLock::by::<Sku>(&locks).stream_body().wait(Duration::ZERO);
    let app = Router::new().route("/stock/{sku}", route.route_layer(lock));
    let (chunks, slow) = upload(Method::POST);
    let meanwhile = async {
        eventually("the upload holds the lock", async || !is_free(&locks, "1").await).await;
        chunks.send("a").await.unwrap();
        drop(chunks);
    };
    let (slow, ()) = join(send(&app, slow), meanwhile).await;
    assert_eq!((slow.status.as_u16(), slow.text()), (200, "a"));
    idle(&locks).await;
}
