//! The protocols as models, every interleaving of which is looked at: locks, the leases and intents of a cache, its
//! tags, and what is served from memory under a lock.
//!
//! Each model has its defences as switches. With all of them it must find nothing; without any one of them it must find
//! the run that the defence is there for.

#![expect(clippy::print_stdout, reason = "the number of states is a result")]

mod cache;
mod lock;
mod tags;
mod under_locks;

use std::{fmt::Debug, hash::Hash};

use stateright::{Checker, HasDiscoveries, Model};

/// Looks at all states, or until a run is found that breaks the `sought` property. The number of states, and the names
/// of what was found.
fn check<M>(model: M, sought: &'static str) -> (usize, Vec<&'static str>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyOf([sought].into())).spawn_bfs().join();
    let mut found: Vec<_> = checker.discoveries().into_keys().collect();
    found.sort_unstable();
    (checker.unique_state_count(), found)
}
