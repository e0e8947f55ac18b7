use std::{any::Any, panic, panic::AssertUnwindSafe, pin::pin, sync::Arc};

use axum::{
    body::Body,
    extract::Request,
    http::{Method, StatusCode},
    response::Response,
};
use futures_util::FutureExt;
use http_body::Body as _;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tracing::Instrument;

use super::{Grant, HeldBody, Hold, Limits, Problem, RequestLocks, Route, Settings, Until};
use crate::lock::Mode;

/// The part of a request that runs under its lock, from the grant to the response.
#[derive(Debug)]
pub(crate) struct Section {
    route: Arc<Route>,
    grant: Arc<Grant>,
    /// Keeps the locks further out while the handler runs: their layers may have ended, as with a read whose client has
    /// gone, around a write that goes on.
    _outer: Vec<Arc<Grant>>,
    entered: Instant,
    limits: Limits,
    /// Whether the handler runs to its end even if its client goes away or its lease is lost. A handler that writes
    /// could otherwise be dropped within its commit, and nobody would learn the outcome.
    detached: bool,
    connect: bool,
}

impl Section {
    pub(crate) fn new(route: Arc<Route>, grant: Arc<Grant>, request: &mut Request) -> Self {
        let entered = Instant::now();
        let own = Limits::new(entered, &route.settings);
        let (outer, limits) = RequestLocks::enter(request.extensions_mut(), &grant, own);
        let method = request.method();
        let detached = !method.is_safe() || grant.mode() == Mode::Write;
        Self { route, grant, _outer: outer, entered, limits, detached, connect: method == Method::CONNECT }
    }

    pub(crate) async fn run<E: Send + 'static>(
        self,
        handler: impl Future<Output = Result<Response, E>> + Send + 'static,
    ) -> Result<Response, E> {
        let handler = self.grant.handling(handler);
        if !self.detached {
            return self.inline(handler).await;
        }
        let route = Arc::clone(&self.route);
        route.detach(self.supervise(handler)).await
    }

    /// A read ends with its client, its lease or its time, because it changes nothing. A commit is possible here too,
    /// under an exclusive lock further in.
    async fn inline<E>(self, handler: impl Future<Output = Result<Response, E>>) -> Result<Response, E> {
        let problem = tokio::select! {
            biased;
            result = handler => return Ok(self.finish(result?)),
            // Asked before the loss, since a shutdown takes the lock away too.
            problem = self.overdue() => problem,
            _ = self.grant.lost() => Problem::LeaseLost,
        };
        let problem = if self.grant.close_commits() { problem } else { Problem::OutcomeUnknown };
        Ok(self.end(problem))
    }

    /// The loss of the lease does not end a write: the handler learns of it through the fence, and the fence row in the
    /// database decides. The longest hold does end a write, unless its commit was sent: only the answer to the commit
    /// tells whether the write was applied.
    async fn supervise<E>(self, handler: impl Future<Output = Result<Response, E>>) -> Result<Response, E> {
        let mut handler = pin!(handler);
        let problem = tokio::select! {
            biased;
            result = &mut handler => return Ok(self.finish(result?)),
            problem = self.overdue() => problem,
        };
        // From here on, a task that the handler left behind cannot commit either.
        if self.grant.close_commits() {
            return Ok(self.end(problem));
        }
        match tokio::time::timeout_at(self.limits.answer_from_now(&self.route.settings), handler).await {
            Ok(result) => Ok(self.finish(result?)),
            Err(_) => Ok(self.end(Problem::OutcomeUnknown)),
        }
    }

    /// Resolves when the handler must end: after the longest hold, or at a shutdown.
    async fn overdue(&self) -> Problem {
        tokio::select! {
            () = tokio::time::sleep_until(self.limits.deadline) => Problem::LeaseLost,
            () = self.route.locks.taken_away() => Problem::ShuttingDown,
        }
    }

    /// The answer of a request whose handler did not come to its own.
    fn end(&self, problem: Problem) -> Response {
        self.route.pace.record(self.grant.mode(), self.entered.elapsed());
        self.route.end(problem)
    }

    /// Releases the lock, or ties it to the body of the response.
    fn finish(self, response: Response) -> Response {
        let Self { route, grant, entered, limits, detached, connect, .. } = self;
        let switching =
            response.status() == StatusCode::SWITCHING_PROTOCOLS || (connect && response.status().is_success());
        if switching && !route.settings.allow_upgrades {
            route.pace.record(grant.mode(), entered.elapsed());
            return route.reject(Problem::UpgradeRefused);
        }
        let over = match route.settings.hold {
            Some(Until::Handler) => true,
            Some(Until::Body) => response.body().is_end_stream(),
            None => response.body().is_end_stream() || response.body().size_hint().exact().is_some(),
        };
        if over {
            route.pace.record(grant.mode(), entered.elapsed());
            return response;
        }
        let hold = Hold { route, grant, entered, deadline: limits.deadline };
        response.map(|body| Body::new(HeldBody::new(body, hold, !detached)))
    }
}

impl Route {
    /// Runs work on a task of the locks. It goes on when the client goes away. A panic continues here.
    async fn detach<E: Send + 'static>(
        &self,
        work: impl Future<Output = Result<Response, E>> + Send + 'static,
    ) -> Result<Response, E> {
        let (reply, answer) = oneshot::channel();
        let work = AssertUnwindSafe(work).catch_unwind();
        let task = async move {
            // Without a client, the response is dropped here, and the guard in its body with it.
            if let Err(Err(panic)) = reply.send(work.await) {
                tracing::error!(panic = message(&*panic), "a handler panicked after its client had gone");
            }
        };
        drop(self.locks.tasks().spawn(task.in_current_span()));
        match answer.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => panic::resume_unwind(panic),
            // Only the shutdown of the runtime drops the task.
            Err(_) => Ok(self.end(Problem::OutcomeUnknown)),
        }
    }

    /// Runs the handler of an unsafe method that goes on without its lock. The handler may write all the same, so it
    /// goes on when the client goes away. It is dropped after `max_hold` plus `commit_timeout`, or at the limit of a
    /// shutdown, and the answer is then `outcome-unknown`. Once a shutdown has begun, none is begun.
    pub(crate) async fn detach_unlocked<E: Send + 'static>(
        self: Arc<Self>,
        handler: impl Future<Output = Result<Response, E>> + Send + 'static,
    ) -> Result<Response, E> {
        let Some(working) = self.locks.working() else { return Ok(self.end(Problem::ShuttingDown)) };
        let route = Arc::clone(&self);
        let work = async move {
            let _working = working;
            let Settings { max_hold, commit_timeout, .. } = route.settings;
            tokio::select! {
                biased;
                result = handler => result,
                () = sleep(max_hold.saturating_add(commit_timeout)) => Ok(route.end(Problem::OutcomeUnknown)),
                () = route.locks.taken_away() => Ok(route.end(Problem::OutcomeUnknown)),
            }
        };
        self.detach(work).await
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
