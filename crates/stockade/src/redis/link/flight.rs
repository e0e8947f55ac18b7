use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{task::unconstrained, time::Instant};

use super::joined::split;
use crate::redis::LinkError;

/// The places of the commands of one connection that have no reply yet.
pub(super) trait Places: Send + Sync {
    /// So many places became free. `answered` is the time at which the answered commands were sent. `None` if they were
    /// given up.
    fn freed(self: Arc<Self>, places: usize, answered: Option<Instant>);
}

/// A sent command, with its place in the write order of its connection, and its reply to come.
///
/// Dropping it gives the command up. If the command was not written yet, it never is. A command that several calls
/// became is given up with the last of them.
pub(super) struct Flight {
    request: Arc<Request>,
    /// Which of the calls that became one command.
    number: usize,
}

pub(super) struct Started {
    pub(super) at: Instant,
    pub(super) flight: Flight,
}

impl Flight {
    /// Puts the command behind all that were started before it. The caller holds the lock of the wire and counts the
    /// command as in flight.
    pub(super) fn start(
        places: Weak<dyn Places>,
        sent: Instant,
        connection: MultiplexedConnection,
        command: Cmd,
    ) -> Result<Self, LinkError> {
        let mut flights = Self::start_joined(places, sent, connection, command, 1)?;
        flights.next().ok_or(LinkError::Down)
    }

    /// Like [`Flight::start`], for a command that so many calls became.
    pub(super) fn start_joined(
        places: Weak<dyn Places>,
        sent: Instant,
        mut connection: MultiplexedConnection,
        command: Cmd,
        calls: usize,
    ) -> Result<impl Iterator<Item = Self>, LinkError> {
        let reply = async move { connection.send_packed_command(&command).await };
        let request = Arc::new(Request::start(places, sent, calls, Box::pin(unconstrained(reply)))?);
        Ok((0..calls).map(move |number| Self { request: Arc::clone(&request), number }))
    }

    /// Whether the reply was there at once. The command is then not in flight.
    pub(super) fn is_ready(&self) -> bool {
        self.request.was_ready
    }

    /// Wakes this caller when the reply arrives, as if it had polled.
    pub(super) fn wakes(&self, caller: Waker) {
        let arrival = &self.request.arrival;
        arrival.caller(self.number).register(&caller);
        // The reply may have arrived before the caller was registered.
        if arrival.freed.load(Ordering::Acquire) {
            caller.wake();
        }
    }
}

impl Future for Flight {
    type Output = RedisResult<Value>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.request.arrival.caller(self.number).register(context.waker());
        self.request.poll(self.number)
    }
}

/// What the driver of the connection was given at once: one call, or several that became one command.
struct Request {
    replies: Mutex<Replies>,
    arrival: Arc<Arrival>,
    waker: Waker,
    was_ready: bool,
}

type Reply = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

enum Replies {
    ToCome(Reply),
    /// By call. `None` once its caller has it.
    Here(Vec<Option<RedisResult<Value>>>),
}

impl Request {
    fn start(places: Weak<dyn Places>, sent: Instant, calls: usize, mut reply: Reply) -> Result<Self, LinkError> {
        let others = (1..calls).map(|_| AtomicWaker::new()).collect();
        let arrival =
            Arc::new(Arrival { places, sent, freed: AtomicBool::new(false), caller: AtomicWaker::new(), others });
        let waker = Waker::from(Arc::clone(&arrival));
        // The first poll hands the command to the connection's queue. The poll must happen now, whatever is left of the
        // task's budget. Otherwise a later call of another task could get ahead.
        let ready = reply.as_mut().poll(&mut Context::from_waker(&waker));
        let was_ready = ready.is_ready();
        let replies = match ready {
            Poll::Ready(ready) => {
                arrival.freed.store(true, Ordering::Release);
                // The queue is closed. Nothing more is known at this point.
                Replies::Here(split(Ok(ready.map_err(|_| LinkError::Down)?), calls))
            }
            Poll::Pending => Replies::ToCome(reply),
        };
        Ok(Self { replies: Mutex::new(replies), arrival, waker, was_ready })
    }

    fn poll(&self, number: usize) -> Poll<RedisResult<Value>> {
        let mut replies = self.replies.lock();
        if let Replies::ToCome(reply) = &mut *replies {
            let Poll::Ready(ready) = reply.as_mut().poll(&mut Context::from_waker(&self.waker)) else {
                return Poll::Pending;
            };
            let calls = self.arrival.calls();
            if calls == 1 {
                *replies = Replies::Here(Vec::new());
                return Poll::Ready(ready);
            }
            *replies = Replies::Here(split(ready, calls));
        }
        match &mut *replies {
            Replies::Here(replies) => replies.get_mut(number).and_then(Option::take).map_or(Poll::Pending, Poll::Ready),
            Replies::ToCome(..) => Poll::Pending,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.arrival.free(None);
    }
}

/// The driver of the connection tells this when the reply arrives, whether or not the callers poll.
struct Arrival {
    /// Weak, because the driver keeps this until the reply arrives, and the wire, which has the places, keeps the
    /// driver.
    places: Weak<dyn Places>,
    sent: Instant,
    freed: AtomicBool,
    caller: AtomicWaker,
    /// The callers of the calls behind the first.
    others: Box<[AtomicWaker]>,
}

impl Arrival {
    fn calls(&self) -> usize {
        1 + self.others.len()
    }

    fn caller(&self, number: usize) -> &AtomicWaker {
        number.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.caller)
    }

    fn free(&self, answered: Option<Instant>) {
        if !self.freed.swap(true, Ordering::AcqRel)
            && let Some(places) = self.places.upgrade()
        {
            places.freed(self.calls(), answered);
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
        self.others.iter().for_each(AtomicWaker::wake);
    }
}
