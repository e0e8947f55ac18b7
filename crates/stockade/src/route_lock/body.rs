use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::{sync::oneshot, time::Instant};
use tracing::Instrument;

use super::{Grant, Route};
use crate::lock::Fence;

/// The lock of a response body.
pub(crate) struct Hold {
    pub(crate) route: Arc<Route>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) entered: Instant,
    pub(crate) deadline: Instant,
}

pin_project! {
    /// A streamed response body with a lock that is held until its end.
    ///
    /// A task owns the guard, not the body. If the client stops reading, the body is no longer polled, and the lock
    /// must end nevertheless.
    #[derive(Debug)]
    pub(crate) struct HeldBody {
        #[pin]
        inner: Body,
        // Dropping it at the end of the body tells the task to release.
        held: Option<oneshot::Sender<()>>,
        cut: Option<oneshot::Receiver<()>>,
        // Of a body that fails if its lock ends first.
        fence: Option<Fence>,
    }
}

/// The client sees a broken transfer, as for any body that fails.
#[derive(Debug, thiserror::Error)]
#[error("the lock of a streamed read ended before the body did")]
struct CutShort;

impl HeldBody {
    /// Holds the lock to the end of `body`, at most until its deadline. A `bound` body fails if the lock ends first, so
    /// that it never mixes data that was read under the lock with later data.
    pub(crate) fn new(body: Body, hold: Hold, bound: bool) -> Self {
        let Hold { route, grant, entered, deadline } = hold;
        let (mode, fence) = (grant.mode(), grant.fence().filter(|_| bound));
        let tasks = route.locks.tasks().clone();
        let (held, ended) = oneshot::channel();
        let (cutter, cut) = oneshot::channel();
        let keeper = async move {
            let over = tokio::select! {
                _ = ended => true,
                _ = grant.lost() => false,
                () = tokio::time::sleep_until(deadline) => false,
            };
            if bound && !over {
                // If the body is dropped already, nobody receives this.
                let _ = cutter.send(());
            }
            drop(grant);
            route.pace.record(mode, entered.elapsed());
        };
        drop(tasks.spawn(keeper.in_current_span()));
        Self { inner: body, held: Some(held), cut: Some(cut), fence }
    }
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut this = self.project();
        if let Some(cut) = this.cut
            && let Poll::Ready(cut) = Pin::new(cut).poll(cx)
        {
            *this.cut = None;
            if cut.is_ok() {
                *this.held = None;
                this.inner.set(Body::empty());
                return Poll::Ready(Some(Err(axum::Error::new(CutShort))));
            }
        }
        let mut frame = std::task::ready!(this.inner.as_mut().poll_frame(cx));
        // The task that tells of the end may be late, as after a stop of the process.
        if matches!(frame, Some(Ok(_))) && this.fence.as_ref().is_some_and(|fence| !fence.is_held()) {
            this.inner.set(Body::empty());
            frame = Some(Err(axum::Error::new(CutShort)));
        }
        if !matches!(frame, Some(Ok(_))) || http_body::Body::is_end_stream(&*this.inner) {
            *this.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
