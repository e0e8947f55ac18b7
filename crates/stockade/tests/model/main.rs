//! Models of the protocols, checked in every interleaving: locks, the leases and intents of a cache, its tags, and the
//! values that are served from memory under a lock.
//!
//! Each model has a switch for each defence. With all defences the check must find no failing run. Without any one of
//! them it must find the run that this defence prevents.

#![expect(clippy::print_stdout, reason = "the number of states is a result")]

mod cache;
mod lock;
mod tags;
mod under_locks;

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, HasDiscoveries, Model};

/// Visits all states, or stops at a run that breaks the property `sought`. Returns the names of the properties that were
/// broken.
fn check<M>(model: M, sought: &'static str) -> Vec<&'static str>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let name = format!("{model:?}");
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyOf([sought].into())).spawn_bfs().join();
    let mut found: Vec<_> = checker.discoveries().into_keys().collect();
    found.sort_unstable();
    let states = checker.unique_state_count();
    println!("{name}: {states} states, {found:?}");
    assert!(found.contains(&sought) || states > 10_000, "the model is too small to show anything: {states} states");
    found
}
