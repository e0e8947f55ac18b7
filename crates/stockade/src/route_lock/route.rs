use std::sync::Arc;

use axum::{
    body::Body,
    extract::{MatchedPath, Request},
    http::{HeaderValue, Method, Version, header::CONNECTION, request::Parts},
    response::{IntoResponse, Response},
};

use super::{
    Degraded, Finder, Grant, KeyOf, Keys, LockWait, OnReject, Pace, Problem, Refusal, Rejection, RequestLocks,
    Settings, Unlocked,
};
use crate::{
    clock::Instant,
    lock::{Guard, LockError, Locks, Mode, MultiGuard},
    resource::Key,
};

/// One locked route. Its requests share this.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) locks: Locks,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) pace: Arc<Pace>,
}

/// A request that may go on to the inner service.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It needs no lock.
    Free(Request),
    /// It did not get its lock, and goes on without.
    Unlocked(Request),
    Held(Request, Arc<Grant>),
}

impl Route {
    /// Finds the key, refuses nested locks, reads the body and takes the lock, in this order. So a refusal costs as
    /// little as possible, and nothing slow happens under the lock. Sets `wait` to the time that the lock took, if its
    /// store was asked.
    pub(crate) async fn admit(
        &self,
        key: &KeyOf,
        request: Request,
        mode: Mode,
        wait: &mut Option<LockWait>,
    ) -> Result<Admitted, Refusal> {
        let (mut parts, body) = request.into_parts();
        let Some(key) = key.key(&mut parts).await? else {
            return Ok(Admitted::Free(Request::from_parts(parts, body)));
        };
        if RequestLocks::refuses(&parts, &key) {
            return Err(Problem::NestedLock.into());
        }
        let refusing = self.locks.refusing(&key, mode);
        if let Some(retry_after) = refusing.filter(|_| !self.settings.proceeds(mode)) {
            return Err(Rejection::new(Problem::LockStoreUnavailable).with_retry_after(retry_after).into());
        }
        let body = match self.settings.stream_body {
            true => body,
            false => self.settings.upload.read(&parts.headers, body).await?.into(),
        };
        if refusing.is_some() {
            return Ok(unlocked(parts, body, Degraded));
        }
        match self.acquire(key, mode, &parts, wait).await {
            Ok(guard) => Ok(Admitted::Held(Request::from_parts(parts, body), Arc::new(Grant::One(guard)))),
            Err(LockError::Unavailable { reason, .. }) if self.settings.proceeds(mode) => {
                tracing::debug!(%reason, "a read goes on without its lock");
                Ok(unlocked(parts, body, Degraded))
            }
            Err(LockError::Timeout { .. } | LockError::Busy { .. } | LockError::QueueFull { .. })
                if self.settings.passes(mode) =>
            {
                Ok(unlocked(parts, body, Unlocked))
            }
            Err(error) => Err(self.refused(&error).into()),
        }
    }

    /// Like [`Route::admit`], for several resources. The body may name them, so it is read first.
    pub(crate) async fn admit_several(
        &self,
        keys: &Finder,
        request: Request,
        wait: &mut Option<LockWait>,
    ) -> Result<Admitted, Refusal> {
        let (parts, body) = request.into_parts();
        if RequestLocks::refuses_several(&parts) {
            return Err(Problem::NestedLock.into());
        }
        let body = self.settings.upload.read(&parts.headers, body).await?;
        let keys = keys(Request::from_parts(parts.clone(), body.clone().into())).await?;
        if let Some(retry_after) = keys.iter().find_map(|key| self.locks.refusing(key, Mode::Write)) {
            return Err(Rejection::new(Problem::LockStoreUnavailable).with_retry_after(retry_after).into());
        }
        let asked = Instant::now();
        let acquired = self.acquire_all(keys, &parts).await;
        *wait = Some(LockWait(asked.elapsed()));
        let grant = acquired.map(|guard| Arc::new(Grant::Several(guard))).map_err(|error| match error {
            // The client has named too few or too many.
            LockError::Count { .. } => Problem::BadRequest.into(),
            error => self.refused(&error),
        })?;
        Ok(Admitted::Held(Request::from_parts(parts, body.into()), grant))
    }

    async fn acquire_all(&self, keys: Vec<Key>, parts: &Parts) -> Result<MultiGuard, LockError> {
        let Settings { wait, lease, max_hold, commit_timeout, .. } = self.settings;
        let longest = max_hold.saturating_add(commit_timeout);
        let request = self.locks.write_keys(keys).wait(wait).max_hold(longest).tag(tag(&parts.method, parts));
        match lease {
            Some(lease) => request.lease(lease),
            None => request,
        }
        .acquire()
        .await
    }

    async fn acquire(
        &self,
        key: Key,
        mode: Mode,
        parts: &Parts,
        wait: &mut Option<LockWait>,
    ) -> Result<Guard, LockError> {
        let Settings { permits, lease, max_hold, commit_timeout, .. } = self.settings;
        // The section ends by itself. This limit is for a section that is never polled again, as behind a stalled
        // connection.
        let longest = max_hold.saturating_add(commit_timeout);
        let request = self
            .locks
            .request(Ok(key), mode)
            .permits(permits)
            .wait(self.settings.wait(mode))
            .max_hold(longest)
            .delegate();
        let request = match lease {
            Some(lease) => request.lease(lease),
            None => request,
        };
        if let Some(guard) = request.enter() {
            return Ok(guard);
        }
        let asked = Instant::now();
        let acquired = request.tag(tag(&parts.method, parts)).acquire().await;
        *wait = Some(LockWait(asked.elapsed()));
        acquired
    }

    fn refused(&self, error: &LockError) -> Rejection {
        let ahead = match error {
            LockError::QueueFull { position, .. } => Some(*position),
            LockError::Timeout { position, .. } => Some(position.unwrap_or(1)),
            LockError::Busy { .. } => Some(1),
            _ => None,
        };
        let rejection = Rejection::from(error.clone());
        match rejection.problem() {
            Problem::Internal => tracing::error!(%error, "the settings of a route lock are refused"),
            Problem::LockStoreUnavailable | Problem::LeaseLost => tracing::warn!(%error, "a request got no lock"),
            _ => {}
        }
        match ahead {
            Some(ahead) => rejection.with_retry_after(self.pace.after(ahead, self.settings.permits)),
            None => rejection,
        }
    }

    pub(crate) fn answer(&self, refusal: Refusal, version: Version) -> Response {
        let rejection = match refusal {
            Refusal::Answer(response) => return *response,
            Refusal::Rejection(rejection) => rejection,
        };
        let mut response = self.reject(rejection);
        if matches!(rejection.problem(), Problem::BodyTimeout | Problem::BodyTooLarge) && version < Version::HTTP_2 {
            // The rest of the upload is not read, so nothing can follow it on this connection.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The answer of a request whose handler did not come to its own.
    pub(crate) fn end(&self, problem: Problem) -> Response {
        tracing::warn!(problem = problem.slug(), "a handler was ended before its answer");
        self.reject(problem)
    }

    pub(crate) fn reject(&self, rejection: impl Into<Rejection>) -> Response {
        let rejection = rejection.into();
        match self.settings.on_reject.as_ref().or_else(|| self.locks.extension::<OnReject>()) {
            Some(on_reject) => on_reject.render(rejection),
            None => rejection.into_response(),
        }
    }
}

/// A request that goes on without its lock, with the mark that says why.
fn unlocked<M: Clone + Send + Sync + 'static>(mut parts: Parts, body: Body, mark: M) -> Admitted {
    parts.extensions.insert(mark);
    Admitted::Unlocked(Request::from_parts(parts, body))
}

/// Describes the holder to people who look at the lock: method and route, never the path.
fn tag(method: &Method, parts: &Parts) -> String {
    const LONGEST: usize = 64;
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let mut tag = format!("{method} {route}");
    let mut end = tag.len().min(LONGEST);
    while !tag.is_char_boundary(end) {
        end -= 1;
    }
    tag.truncate(end);
    tag.retain(|character| !character.is_control());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_never_refused() {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = Method::from_bytes(&[b'X'; 100]).unwrap();
        assert_eq!(tag(&parts.method, &parts).len(), 64);
    }
}
