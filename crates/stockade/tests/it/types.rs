//! Traits that users rely on without asking, and that no lint asks for: what is kept, shared and sent to other tasks,
//! what is an error, and what is a key of a map. The compiler checks them; nothing runs.

use std::{error::Error, fmt::Debug, hash::Hash};

use stockade::{
    Cache, Fence, Guard, LockError, Locks, Redis, Resource,
    cache::{
        Bloom, BuildError, CacheBuilder, CacheError, CacheInfo, CacheStats, Codec, Invalidator, Kept, Limits, Loaded,
        Lookup, RowError, TagError, Tier, WarmProgress, WarmReport, WarmState,
    },
    lock::{
        Force, Forced, GuardError, Handover, HandoverTextError, LockName, LockRequest, LocksBuilder, LossReason,
        Misplaced, Mode, MultiFence, MultiGuard, MultiRequest, Party, Released, RunError, Token, Unavailable,
    },
    redis::{ConnectError, Pool, RedisBuilder, Source},
    resource::{Key, KeyError},
};

#[derive(Clone)]
struct Sku;

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> std::borrow::Cow<'_, str> {
        "1".into()
    }
}

fn is_sent<T: Debug + Send + 'static>() {}
fn is_shared<T: Debug + Send + Sync + 'static>() {}
fn is_a_handle<T: Clone + Debug + Send + Sync + 'static>() {}
fn is_an_error<T: Error + Send + Sync + 'static>() {}
fn is_a_key<T: Copy + Debug + Eq + Hash + Send + Sync + 'static>() {}

#[test]
fn locks_and_what_they_give_can_be_kept_and_sent() {
    is_a_handle::<Locks>();
    is_a_handle::<LocksBuilder>();
    is_a_handle::<LockRequest>();
    is_a_handle::<MultiRequest>();
    is_a_handle::<LockName>();
    is_shared::<Guard>();
    is_shared::<MultiGuard>();
    is_a_handle::<Fence>();
    is_a_handle::<MultiFence>();
    is_a_handle::<Handover>();
    is_a_handle::<(Forced, Party, stockade::lock::Inspection, Key)>();
    is_a_handle::<Redis>();
    is_a_handle::<Pool>();
    is_sent::<RedisBuilder>();
    is_sent::<Source>();
}

#[test]
fn caches_and_what_they_give_can_be_kept_and_sent() {
    is_a_handle::<Cache<Sku, u64>>();
    is_sent::<CacheBuilder<Sku, u64>>();
    is_a_handle::<Invalidator>();
    is_a_handle::<Limits>();
    is_a_handle::<Bloom>();
    is_sent::<stockade::cache::bloom::BloomBuilder<Sku>>();
    is_a_handle::<WarmProgress>();
    is_a_handle::<(Lookup<u64>, Loaded<u64>, CacheInfo, CacheStats, stockade::cache::bloom::BloomStats, WarmReport)>();
    is_a_handle::<(stockade::cache::Inspection, Tier, Kept)>();
}

#[test]
fn errors_are_errors_that_any_task_may_return() {
    is_an_error::<LockError>();
    is_an_error::<Unavailable>();
    is_an_error::<Misplaced>();
    is_an_error::<GuardError>();
    is_an_error::<RunError>();
    is_an_error::<HandoverTextError>();
    is_an_error::<KeyError>();
    is_an_error::<ConnectError>();
    is_an_error::<CacheError>();
    is_an_error::<BuildError>();
    is_an_error::<TagError>();
    is_an_error::<RowError>();
}

#[test]
fn small_values_are_keys_of_maps() {
    is_a_key::<Token>();
    is_a_key::<Mode>();
    is_a_key::<LossReason>();
    is_a_key::<Released>();
    is_a_key::<Force>();
    is_a_key::<Misplaced>();
    is_a_key::<Codec>();
    is_a_key::<stockade::cache::Source>();
    is_a_key::<WarmState>();
}

#[cfg(feature = "axum")]
#[test]
fn layers_and_extractors_can_be_kept_and_sent() {
    use stockade::{
        extract::{CachePolicy, Cached, EntityTag, Fences},
        route_lock::{
            Degraded, LockWait, OnStoreError, Problem, Rejection, RouteLock, RouteLockService, Unlocked, Until,
        },
    };

    is_a_handle::<RouteLock>();
    is_a_handle::<RouteLockService<axum::Router>>();
    is_a_handle::<(Cached<u64>, CachePolicy, Fences, LockWait, Rejection, Degraded, Unlocked)>();
    is_a_key::<Problem>();
    is_a_key::<EntityTag>();
    is_a_key::<OnStoreError>();
    is_a_key::<Until>();
}

#[cfg(feature = "postgres")]
#[test]
fn transactions_and_relays_can_be_kept_and_sent() {
    use stockade::postgres::{CommitError, FenceError, Relay, RelayError, Tx, WriteError};

    is_sent::<Tx>();
    is_shared::<Relay>();
    is_an_error::<FenceError>();
    is_an_error::<CommitError>();
    is_an_error::<WriteError>();
    is_an_error::<RelayError>();
}

#[cfg(feature = "legacy-setnx")]
#[test]
fn classic_locks_can_be_kept_and_sent() {
    use stockade::legacy::{SetnxError, SetnxGuard, SetnxLock, SetnxLocks};

    is_a_handle::<SetnxLocks>();
    is_a_handle::<SetnxLock>();
    is_shared::<SetnxGuard>();
    is_an_error::<SetnxError>();
}
