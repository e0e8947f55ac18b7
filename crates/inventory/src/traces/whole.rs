use axum::{body::Bytes, http::Response};
use reqwest::{Client, Request};

/// The answer to a request, with its body.
pub(super) async fn whole(client: &Client, request: Request) -> reqwest::Result<Response<Bytes>> {
    let mut answer = client.execute(request).await?;
    let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
    let mut whole = Response::new(answer.bytes().await?);
    (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
    Ok(whole)
}
