use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{task::unconstrained, time::Instant};

use crate::redis::LinkError;

/// The places of the commands of one connection that have no reply yet.
pub(super) trait Places: Send + Sync {
    /// A place became free. `answered` is the time at which the answered command was sent. `None` if the command was
    /// given up.
    fn freed(self: Arc<Self>, answered: Option<Instant>);
}

/// A sent command, with its place in the write order of its connection, and its reply to come.
///
/// Dropping it gives the command up. If it was not written yet, it never is.
pub(super) struct Flight {
    reply: Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>,
    ready: Option<RedisResult<Value>>,
    arrival: Arc<Arrival>,
    waker: Waker,
}

impl Flight {
    /// Puts the command behind all that were started before it. The caller holds the lock of the wire and counts the
    /// command as in flight.
    pub(super) fn start(
        places: Weak<dyn Places>,
        sent: Instant,
        mut connection: MultiplexedConnection,
        command: Cmd,
    ) -> Result<Self, LinkError> {
        let (freed, caller) = (AtomicBool::new(false), AtomicWaker::new());
        let arrival = Arc::new(Arrival { places, sent, freed, caller });
        let waker = Waker::from(Arc::clone(&arrival));
        // The first poll hands the command to the connection's queue. The poll must happen now, whatever is left of the
        // task's budget. Otherwise a later call of another task could get ahead.
        let mut reply: Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>> =
            Box::pin(unconstrained(async move { connection.send_packed_command(&command).await }));
        let ready = match reply.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ready) => {
                arrival.freed.store(true, Ordering::Release);
                // The queue is closed. Nothing more is known at this point.
                Some(Ok(ready.map_err(|_| LinkError::Down)?))
            }
            Poll::Pending => None,
        };
        Ok(Self { reply, ready, arrival, waker })
    }

    /// Whether the reply was there at once. The command is then not in flight.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
}

impl Future for Flight {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = &mut *self;
        if let Some(ready) = flight.ready.take() {
            return Poll::Ready(ready);
        }
        flight.arrival.caller.register(context.waker());
        flight.reply.as_mut().poll(&mut Context::from_waker(&flight.waker))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.arrival.free(None);
    }
}

/// The driver of the connection tells this when the reply arrives, whether or not the caller polls.
struct Arrival {
    /// Weak, because the driver keeps this until the reply arrives, and the wire, which has the places, keeps the
    /// driver.
    places: Weak<dyn Places>,
    sent: Instant,
    freed: AtomicBool,
    caller: AtomicWaker,
}

impl Arrival {
    fn free(&self, answered: Option<Instant>) {
        if !self.freed.swap(true, Ordering::AcqRel)
            && let Some(places) = self.places.upgrade()
        {
            places.freed(answered);
        }
    }
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.free(Some(self.sent));
        self.caller.wake();
    }
}
