use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::answer::Outcome;
use crate::{clock::Instant, resource::Key};

/// How a flight ended for its passengers.
#[derive(Debug)]
enum End<V> {
    Landed(Outcome<V>),
    /// The pilot ended the flight without an outcome. Passengers board again.
    Left,
}

/// The flights of this process that callers may board: at most one for each key.
#[derive(Debug)]
pub(crate) struct Flights<V>(Mutex<HashMap<Key, Arc<SingleFlight<V>>>>);

#[derive(Debug)]
struct SingleFlight<V> {
    began: Instant,
    boarding: Mutex<Boarding>,
    end: watch::Sender<Option<End<V>>>,
}

#[derive(Debug, Default)]
struct Boarding {
    /// How many passengers have boarded: the number of the next one.
    boarded: u64,
    /// Whether the source of the value has been asked for the reply that the flight awaits or is handling.
    asked: bool,
}

/// A caller's place on a flight. Dropping it never ends the flight.
#[derive(Debug)]
pub(crate) struct Passage<V> {
    flight: Arc<SingleFlight<V>>,
    number: u64,
}

/// The handle of the task that runs a flight. If it is dropped, the flight ends as [`Outcome::Lost`].
#[derive(Debug)]
pub(crate) struct Pilot<V> {
    flights: Arc<Flights<V>>,
    key: Key,
    flight: Arc<SingleFlight<V>>,
}

/// Which flights a caller may board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Any open flight.
    Any,
    /// Only a flight that has not asked for the value yet, so that its answer is valid for this caller.
    BeforeLoad,
}

impl<V> Flights<V> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(HashMap::new())))
    }

    /// Boards the open flight for this key, or begins one. If a pilot is returned, the flight is new and the caller
    /// must run it.
    pub(crate) fn board(self: &Arc<Self>, key: &Key, join: Join) -> (Passage<V>, Option<Pilot<V>>) {
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(key)
            && let Some(number) = flight.admit(join)
        {
            return (Passage { flight: Arc::clone(flight), number }, None);
        }
        let boarding = Mutex::new(Boarding { boarded: 1, asked: false });
        let flight = Arc::new(SingleFlight { began: Instant::now(), boarding, end: watch::Sender::new(None) });
        flights.insert(key.clone(), Arc::clone(&flight));
        let pilot = Pilot { flights: Arc::clone(self), key: key.clone(), flight: Arc::clone(&flight) };
        (Passage { flight, number: 0 }, Some(pilot))
    }

    /// Closes the flight for this key: no caller boards it from now on.
    pub(crate) fn detach(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Closes all flights: no caller boards them from now on.
    pub(crate) fn detach_all(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.0.lock().contains_key(key)
    }
}

impl<V> SingleFlight<V> {
    fn admit(&self, join: Join) -> Option<u64> {
        let mut boarding = self.boarding.lock();
        if join == Join::BeforeLoad && boarding.asked {
            return None;
        }
        let number = boarding.boarded;
        boarding.boarded += 1;
        Some(number)
    }
}

impl<V: Send + Sync> Passage<V> {
    pub(crate) fn began(&self) -> Instant {
        self.flight.began
    }

    /// The outcome, or `None` if the flight has none that is valid for this passenger. Then the caller boards again.
    /// Cancel safe.
    pub(crate) async fn outcome(self) -> Option<Outcome<V>> {
        let mut end = self.flight.end.subscribe();
        // Waiting can't fail: the sender is part of the flight, which this passage keeps alive.
        match end.wait_for(Option::is_some).await.ok()?.as_ref()? {
            End::Left => None,
            End::Landed(Outcome::Answer(_, Some(before))) if self.number >= *before => None,
            End::Landed(outcome) => Some(outcome.clone()),
        }
    }
}

impl<V> Pilot<V> {
    /// Must be called right before the source of the value is asked. Passengers with a number below the returned one
    /// boarded before, and may take the reply.
    pub(crate) fn ask(&self) -> u64 {
        let mut boarding = self.flight.boarding.lock();
        boarding.asked = true;
        boarding.boarded
    }

    /// Must be called when the reply brought no value and the source will be asked again. Callers may board as before
    /// the first request.
    pub(crate) fn waits(&self) {
        self.flight.boarding.lock().asked = false;
    }

    /// Closes the flight: no caller boards it from now on. Must be called before a value is stored: a passenger that
    /// boards between the store's write and its reply could know of a write that came after.
    pub(crate) fn close(&self) {
        let mut flights = self.flights.0.lock();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
    }

    pub(crate) fn land(self, outcome: Outcome<V>) {
        self.end(End::Landed(outcome));
    }

    /// Ends the flight without an outcome. Its passengers board again.
    pub(crate) fn leave(self) {
        self.end(End::Left);
    }

    fn end(self, end: End<V>) {
        self.close();
        self.flight.end.send_replace(Some(end));
    }
}

impl<V> Drop for Pilot<V> {
    fn drop(&mut self) {
        self.close();
        self.flight.end.send_if_modified(|end| {
            let lost = end.is_none();
            if lost {
                *end = Some(End::Landed(Outcome::Lost));
            }
            lost
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Source, flight::Answer, value::Entry};

    fn answer(before: Option<u64>) -> Outcome<u8> {
        let entry = Entry::new(None, 0);
        Outcome::Answer(Answer { entry, source: Source::Load, degraded: false, stored: true, waited: false }, before)
    }

    #[tokio::test]
    async fn passengers_who_boarded_after_the_question_do_not_take_its_answer() {
        let flights = Flights::new();
        let key = Key::new("stock", "a").unwrap();
        let (first, pilot) = flights.board(&key, Join::Any);
        let pilot = pilot.unwrap();
        let (second, none) = flights.board(&key, Join::BeforeLoad);
        assert!(none.is_none());
        let before = pilot.ask();
        let (late, none) = flights.board(&key, Join::Any);
        assert!(none.is_none());
        let (_, other) = flights.board(&key, Join::BeforeLoad);
        assert!(other.is_some(), "a flight that has asked takes only those who accept any");
        pilot.land(answer(Some(before)));
        assert!(first.outcome().await.is_some());
        assert!(second.outcome().await.is_some());
        assert!(late.outcome().await.is_none());
    }

    #[tokio::test]
    async fn a_closed_flight_takes_nobody_and_its_end_leaves_the_next_alone() {
        let flights = Flights::new();
        let key = Key::new("stock", "a").unwrap();
        let (first, pilot) = flights.board(&key, Join::Any);
        let pilot = pilot.unwrap();
        pilot.close();
        let (_second, next) = flights.board(&key, Join::Any);
        assert!(next.is_some());
        pilot.land(answer(None));
        assert!(first.outcome().await.is_some());
        assert_eq!(flights.len(), 1);
    }

    #[tokio::test]
    async fn who_boarded_a_flight_that_is_left_boards_the_next() {
        let flights = Flights::<u8>::new();
        let key = Key::new("stock", "a").unwrap();
        let (first, pilot) = flights.board(&key, Join::Any);
        let (second, none) = flights.board(&key, Join::Any);
        assert!(none.is_none());
        pilot.unwrap().leave();
        assert!(first.outcome().await.is_none());
        assert!(second.outcome().await.is_none());
        let (_, next) = flights.board(&key, Join::Any);
        assert!(next.is_some());
    }

    #[tokio::test]
    async fn a_pilot_that_is_dropped_leaves_nobody_waiting() {
        let flights = Flights::<u8>::new();
        let key = Key::new("stock", "a").unwrap();
        let (first, pilot) = flights.board(&key, Join::Any);
        drop(pilot);
        assert!(matches!(first.outcome().await, Some(Outcome::Lost)));
        assert_eq!(flights.len(), 0);
    }
}
