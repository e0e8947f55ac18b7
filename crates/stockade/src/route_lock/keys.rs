use std::{fmt, sync::Arc};

use axum::{extract::FromRequestParts, http::request::Parts, response::IntoResponse};
use futures_util::future::BoxFuture;

use super::{Problem, Refusal, Template};
use crate::resource::{Key, Resource};

/// Where a route's key comes from.
#[derive(Clone)]
pub(crate) enum Keys {
    Extractor(for<'a> fn(&'a mut Parts) -> BoxFuture<'a, Result<Key, Refusal>>),
    Template(Arc<Template>),
    Function(Arc<dyn Fn(&Parts) -> Result<Option<Key>, Refusal> + Send + Sync>),
}

impl Keys {
    pub(crate) fn by<K>() -> Self
    where
        K: Resource + FromRequestParts<()> + 'static,
    {
        Self::Extractor(extract::<K>)
    }

    /// The key of a request, `None` for no lock. No store is asked.
    pub(crate) async fn key(&self, parts: &mut Parts) -> Result<Option<Key>, Refusal> {
        match self {
            Self::Extractor(extract) => extract(parts).await.map(Some),
            Self::Template(template) => Ok(Some(template.fill(parts).await?)),
            Self::Function(function) => function(parts),
        }
    }
}

fn extract<K>(parts: &mut Parts) -> BoxFuture<'_, Result<Key, Refusal>>
where
    K: Resource + FromRequestParts<()> + 'static,
{
    Box::pin(async {
        let key = match K::from_request_parts(parts, &()).await {
            Ok(resource) => Key::of(&resource),
            Err(rejection) => return Err(Refusal::Answer(Box::new(rejection.into_response()))),
        };
        key.map_err(|error| {
            let rejection = super::Rejection::from(error.clone());
            if rejection.problem() == Problem::Internal {
                tracing::error!(kind = K::KIND, %error, "the kind of a locked resource is no name");
            }
            rejection.into()
        })
    })
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extractor(_) => f.write_str("Extractor"),
            Self::Template(template) => fmt::Debug::fmt(template, f),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
