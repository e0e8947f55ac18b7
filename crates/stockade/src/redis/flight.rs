use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::task::unconstrained;

use super::LinkError;

/// The most commands of one connection without a reply. The connection's own queue is as long, so that starting a
/// command never has to wait for a place in it.
pub(super) const MAX_IN_FLIGHT: usize = 8192;

/// A command that has its place in the write order of its connection, and the reply to come.
///
/// Dropping it gives the command up: one that is not written yet then never is.
pub(super) struct Flight {
    reply: Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>,
    ready: Option<RedisResult<Value>>,
    _place: Place,
}

impl Flight {
    /// Puts the command behind all that were started before it.
    pub(super) fn start(
        connection: &MultiplexedConnection,
        command: Cmd,
        in_flight: &Arc<AtomicUsize>,
    ) -> Result<Self, LinkError> {
        let place = Place::take(in_flight).ok_or(LinkError::Down)?;
        let mut connection = connection.clone();
        // The first poll hands the command to the connection's queue. It must not be put off by the task's budget, or a
        // later call of another task could come first.
        let mut reply: Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>> =
            Box::pin(unconstrained(async move { connection.send_packed_command(&command).await }));
        let ready = match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // The queue is closed, which is all that can be known so early.
            Poll::Ready(Err(_)) => return Err(LinkError::Down),
            Poll::Ready(Ok(value)) => Some(Ok(value)),
            Poll::Pending => None,
        };
        Ok(Self { reply, ready, _place: place })
    }
}

impl Future for Flight {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.ready.take() {
            Some(result) => Poll::Ready(result),
            None => self.reply.as_mut().poll(context),
        }
    }
}

struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(in_flight: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(in_flight));
        (in_flight.fetch_add(1, Ordering::Relaxed) < MAX_IN_FLIGHT).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
