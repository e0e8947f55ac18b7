use std::sync::Arc;

use super::{
    state::{Asking, Entering, Registering, State},
    waiter::Waiter,
};
use crate::{
    redis::Redirects,
    store::{LockError, Ownership},
};

impl Waiter {
    /// Does what each state asks for, until the attempt has ended.
    pub(crate) async fn acquire(mut self) -> Result<Arc<Ownership>, LockError> {
        let mut state = State::Registering(Registering::New);
        loop {
            state = match state {
                State::Registering(registering) => State::registered(self.register(registering).await),
                State::Asking(asking) => self.ask(asking).await,
                State::Entering(entering) => self.enter(entering).await,
                State::Waiting(waiting) => {
                    let wakeup = self.rest().await;
                    waiting.next(wakeup, &mut self.place)
                }
                State::Claiming(waiting) => waiting.claimed(self.claim()),
                State::Due(waiting) => waiting.in_time(self.ask_in_time()),
                State::Ended(Err(LockError::Timeout { remaining, .. })) if self.limit.for_recall => {
                    return Err(LockError::Busy { remaining });
                }
                State::Ended(outcome) => return outcome,
            };
        }
    }

    /// Asks one question, which may take several commands.
    async fn ask(&mut self, mut asking: Asking) -> State {
        let first = asking.first;
        self.put_off();
        let mut redirects = Redirects::new(&self.inner.shards, self.limit.until);
        loop {
            let answer = self.send(&mut redirects).await;
            match asking.next(answer, self.terms(), &mut self.place) {
                State::Asking(again) => asking = again,
                next => return self.wound(next, first),
            }
        }
    }

    async fn enter(&mut self, entering: Entering) -> State {
        let first = entering.is_first();
        let entered = self.confirm(entering.entry).await;
        let next = entering.next(entered, self.terms(), &mut self.place);
        self.wound(next, first)
    }

    /// Sets the alarm of a waiter again after each answer.
    fn wound(&mut self, next: State, first: bool) -> State {
        if let State::Waiting(_) = next {
            self.set_alarm(first);
        }
        next
    }
}
