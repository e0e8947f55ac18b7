use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{Request, request::Parts},
    response::IntoResponse,
};
use stockade::{
    Cache,
    extract::{Cached, FromCache},
};

use crate::{
    contender::{Contender, Failure},
    page::{Page, Text},
};

/// Its number is the path.
impl<S: Sync> FromRequestParts<S> for Page {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.uri.path().trim_start_matches('/').parse().unwrap_or_default()))
    }
}

type Pages = Cache<Page, Text>;

impl FromCache<Pages> for Text {
    type Key = Page;

    fn cache(pages: &Pages) -> &Pages {
        pages
    }

    fn version(&self) -> Option<u64> {
        Some(1)
    }
}

/// A hit in the process, behind the head of a request that names it: asked for by hand, by the extractor, and made the
/// answer.
pub(crate) fn contenders() -> Vec<Contender> {
    let pages = Cache::memory().loader(|_: Page| async { Ok::<_, Infallible>(Some(Text::default())) }).build();
    let (by_hand, extracted) = (pages.clone(), pages.clone());
    vec![
        Contender::new("Cache::get by hand", move |task| get(by_hand.clone(), task)),
        Contender::new("the extractor Cached", move |task| extract(extracted.clone(), task, false)),
        Contender::new("the same, and its answer as JSON", move |task| extract(pages.clone(), task, true)),
    ]
}

fn head(task: u32) -> Result<Parts, Failure> {
    Ok(Request::builder().uri(format!("/{task}")).body(())?.into_parts().0)
}

async fn get(pages: Pages, task: u32) -> Result<(), Failure> {
    let mut parts = head(task)?;
    let page = Page::from_request_parts(&mut parts, &pages).await?;
    drop(pages.get(&page).await?);
    Ok(())
}

async fn extract(pages: Pages, task: u32, answer: bool) -> Result<(), Failure> {
    let mut parts = head(task)?;
    let text = Cached::<Text>::from_request_parts(&mut parts, &pages).await.map_err(|error| error.to_string())?;
    if answer {
        drop(text.into_response());
    }
    Ok(())
}
