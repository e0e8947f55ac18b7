use std::{fmt, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::request::Parts,
};
use futures_util::future::BoxFuture;

use super::{Refusal, Rejection, Template};
use crate::resource::{Key, KeyError, Resource};

/// How a route finds the key, or the keys, of a request.
#[derive(Clone)]
pub(crate) enum Keys {
    One(KeyOf),
    Several(Finder),
}

/// Finds the keys of a request whose body is in memory.
pub(crate) type Finder = Arc<dyn Fn(Request) -> BoxFuture<'static, Result<Vec<Key>, Refusal>> + Send + Sync>;

pub(crate) fn finder<E, M, F, I>(keys: F) -> Finder
where
    E: FromRequest<(), M> + Send,
    F: Fn(E) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = Result<Key, KeyError>>,
{
    let keys = Arc::new(keys);
    Arc::new(move |request| {
        let keys = Arc::clone(&keys);
        Box::pin(async move {
            let extracted = E::from_request(request, &()).await.map_err(Refusal::answer)?;
            keys(extracted).into_iter().collect::<Result<_, _>>().map_err(refused)
        })
    })
}

/// How a route finds a single key.
#[derive(Clone)]
pub(crate) enum KeyOf {
    Extractor(for<'a> fn(&'a mut Parts) -> BoxFuture<'a, Result<Key, Refusal>>),
    Template(Arc<Template>),
    Function(Arc<dyn Fn(&Parts) -> Result<Option<Key>, Refusal> + Send + Sync>),
}

impl KeyOf {
    /// The key of a request; `None` if the request takes no lock. Asks no store.
    pub(crate) async fn key(&self, parts: &mut Parts) -> Result<Option<Key>, Refusal> {
        match self {
            Self::Extractor(extract) => extract(parts).await.map(Some),
            Self::Template(template) => Ok(Some(template.fill(parts).await?)),
            Self::Function(function) => function(parts),
        }
    }
}

pub(crate) fn extract<K>(parts: &mut Parts) -> BoxFuture<'_, Result<Key, Refusal>>
where
    K: Resource + FromRequestParts<()> + 'static,
{
    Box::pin(async {
        let resource = K::from_request_parts(parts, &()).await.map_err(Refusal::answer)?;
        Key::of(&resource).map_err(refused)
    })
}

fn refused(error: KeyError) -> Refusal {
    if let KeyError::Name(name) = &error {
        tracing::error!(%name, "the kind of a locked resource is no name");
    }
    Rejection::from(error).into()
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(key) => fmt::Debug::fmt(key, f),
            Self::Several(_) => f.write_str("Several"),
        }
    }
}

impl fmt::Debug for KeyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extractor(_) => f.write_str("Extractor"),
            Self::Template(template) => fmt::Debug::fmt(template, f),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
