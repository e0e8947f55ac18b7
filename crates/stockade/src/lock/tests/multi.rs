use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::support::{Faulty, LEASE, LIMIT, SHORT, Sku, idle, until};
use crate::{
    Resource,
    lock::{Force, LockError, Locks, LossReason, MultiRequest, Released, RunError},
    resource::Key,
};

struct Order(u32);

impl Resource for Order {
    const KIND: &'static str = "order";

    fn id(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}

#[tokio::test]
async fn fences_come_in_the_order_of_the_request_and_a_repeated_resource_is_held_once() {
    let locks = Locks::memory();
    for order in [["b", "a", "b"], ["a", "b", "a"]] {
        let skus = order.map(Sku);
        let held = locks.write_all(&skus).acquire().await.unwrap();
        let fences = held.fences();
        let keys: Vec<_> = fences.iter().map(|fence| fence.key().to_string()).collect();
        assert_eq!(keys, order.map(|id| format!("stock:{id}")));
        let tokens: Vec<_> = held.tokens().collect();
        assert_eq!((tokens[0], tokens[0] == tokens[1]), (tokens[2], false));
        assert_eq!(held.fence_of(&Sku("a")).unwrap().key().as_str(), "stock:a");
        assert!(held.fence_of(&Sku("c")).is_none() && held.fence_of(&Sku("")).is_none());
        assert_eq!(locks.list(10).await.unwrap(), ["stock:a", "stock:b"]);
        assert_eq!(held.release().await.unwrap(), Released::Released);
        idle(&locks).await;
    }
}

#[tokio::test]
async fn resources_of_different_types_are_named_by_their_keys() {
    let locks = Locks::memory();
    let keys = [Key::of(&Sku("1")).unwrap(), Key::of(&Order(1)).unwrap(), Key::new("stock", "1").unwrap()];
    let held = locks.write_keys(keys).acquire().await.unwrap();
    assert_eq!(held.fence_of(&Order(1)).unwrap().key().as_str(), "order:1");
    assert_eq!(held.tokens().count(), 3);
    assert_eq!(locks.list(10).await.unwrap(), ["order:1", "stock:1"]);
}

#[tokio::test]
async fn a_bad_request_is_refused_before_the_store_sees_it() {
    let (locks, store) = Faulty::locks();
    let (one, two) = (Sku("1"), Sku("2"));
    let both = || locks.write_all([&one, &two]);
    let refused = [
        locks.write_all([&one, &Sku("")]).acquire().await,
        locks.write_all::<Sku>([]).acquire().await,
        locks.write_all(std::iter::repeat(&one)).acquire().await,
        both().tag("a\nb").acquire().await,
        both().lease(Duration::from_millis(99)).acquire().await,
        both().max_hold(Duration::ZERO).acquire().await,
    ];
    let errors = refused.map(Result::unwrap_err);
    assert!(
        matches!(
            errors,
            [
                LockError::Key(_),
                LockError::Count { given: 0, .. },
                LockError::Count { given: 65, max: 64 },
                LockError::Tag,
                LockError::Duration { what: "lease", .. },
                LockError::Duration { what: "max_hold", .. },
            ]
        ),
        "{errors:?}"
    );
    assert_eq!(store.acquires(), 0);
    let most: Vec<Key> = (0..MultiRequest::MAX).map(|id| Key::new("stock", &id.to_string()).unwrap()).collect();
    assert_eq!(locks.write_keys(most).acquire().await.unwrap().tokens().count(), 64);
}

#[tokio::test]
async fn messages_show_no_id() {
    let locks = Locks::memory();
    let _held = locks.write(&Sku("customer@example.org")).acquire().await.unwrap();
    let all = || locks.write_all(&[Sku("customer@example.org"), Sku("2")]);
    let timeout = all().wait(SHORT).acquire().await.unwrap_err();
    assert!(matches!(&timeout, LockError::Timeout { key, .. } if key.as_str().contains("customer")), "{timeout:?}");
    let lost = LockError::Lost { key: Key::new("stock", "customer@example.org").unwrap(), reason: LossReason::Expired };
    for message in [timeout.to_string(), lost.to_string()] {
        assert!(message.contains("`stock`") && !message.contains("customer"), "{message}");
    }
}

#[tokio::test]
async fn what_is_held_is_renewed_while_the_rest_is_waited_for() {
    // This store can't take several keys in one step, so two keys are held before the last one is asked for.
    let (locks, store) = Faulty::locks();
    let mut keys = ["1", "2", "3"].map(|id| Key::new("stock", id).unwrap());
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let last = locks.write_keys([keys[2].clone()]).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write_keys(keys.clone()).lease(LEASE).wait(LIMIT).acquire());
    until("it waits", async || locks.inspect(keys[2].as_str()).await.unwrap().waiting == 1).await;
    // Far beyond the lease.
    until("renewed", async || keys[..2].iter().all(|key| store.renewals(key.as_str()) > 5)).await;
    last.release().await.unwrap();
    let all = tasks.join_next().await.unwrap().unwrap().unwrap();
    assert!(all.is_held());
    drop(all);
    idle(&locks).await;
}

#[tokio::test]
async fn the_wait_is_for_all_of_them_together() {
    let locks = Locks::memory();
    let mut keys = ["1", "2"].map(|id| Key::new("stock", id).unwrap());
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let [first, last] = keys.each_ref().map(|key| locks.write_keys([key.clone()]).acquire());
    let (first, _last) = (first.await.unwrap(), last.await.unwrap());
    let wait = Duration::from_millis(1500);
    let began = tokio::time::Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write_keys(keys.clone()).wait(wait).acquire());
    tokio::time::sleep(wait - SHORT).await;
    first.release().await.unwrap();
    match tasks.join_next().await.unwrap().unwrap().unwrap_err() {
        LockError::Timeout { key, waited, .. } => assert_eq!((key, waited >= wait), (keys[1].clone(), true)),
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < wait * 2 - SHORT * 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_longest_hold_begins_when_all_are_held() {
    let (locks, _) = Faulty::locks();
    let mut keys = ["1", "2"].map(|id| Key::new("stock", id).unwrap());
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let last = locks.write_keys([keys[1].clone()]).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write_keys(keys.clone()).max_hold(SHORT * 2).wait(LIMIT).acquire());
    until("it waits", async || locks.inspect(keys[1].as_str()).await.unwrap().waiting == 1).await;
    tokio::time::sleep(SHORT * 3).await;
    last.release().await.unwrap();
    let all = tasks.join_next().await.unwrap().unwrap().expect("the wait counted as a hold");
    // Well before the lease of 10 s would have ended.
    let told = tokio::time::timeout(Duration::from_secs(5), all.lost()).await;
    assert_eq!(told.expect("not told"), LossReason::Expired);
    let next = locks.write_keys(keys).wait(Duration::from_secs(5)).acquire().await.unwrap();
    assert!(next.is_held() && !all.is_held());
    assert!(next.fences().is_held() && !all.fences().is_held());
    assert_eq!(all.release().await.unwrap(), Released::Lost);
    assert!(next.is_held());
}

#[tokio::test]
async fn a_release_that_is_dropped_on_its_way_still_releases_all() {
    let (locks, store) = Faulty::locks();
    let both = || locks.write_all(&[Sku("1"), Sku("2")]);
    store.hang_releases(true);
    let held = both().acquire().await.unwrap();
    assert!(tokio::time::timeout(SHORT, held.release()).await.is_err());
    idle(&locks).await;
    let held = both().acquire().await.unwrap();
    // A release that is dropped before its first poll.
    drop(held.release());
    idle(&locks).await;
    drop(both().acquire().await.unwrap());
    idle(&locks).await;
}

#[tokio::test]
async fn a_commit_under_one_of_several_is_a_commit_under_all() {
    let locks = Locks::memory();
    let both = || locks.write_all(&[Sku("1"), Sku("2")]);
    let held = both().acquire().await.unwrap();
    let one = held.fence_of(&Sku("1")).unwrap();
    let two = held.fence_of(&Sku("2")).unwrap();
    assert!(one.commit_started());
    assert!(!two.ownership.commits.close(), "somebody could be told that nothing was applied");
    held.release().await.unwrap();
    let held = both().acquire().await.unwrap();
    assert!(held.fence_of(&Sku("2")).unwrap().ownership.commits.close());
    assert!(!held.fences().commit_started());
}

#[tokio::test]
async fn work_runs_under_all_and_is_cancelled_by_the_loss_of_one() {
    let locks = Locks::memory();
    let both = || locks.write_all(&[Sku("1"), Sku("2")]);
    let seen = both().run(async |fences| fences.tokens().count()).await;
    assert_eq!(seen.unwrap(), 2);
    assert_eq!(both().run(async |_| Err::<(), _>("broken")).await.unwrap(), Err("broken"));
    let work = both().run(async |_| {
        locks.force_release("stock:2", Force::Now).await.unwrap();
        std::future::pending::<()>().await;
    });
    let lost = tokio::time::timeout(LIMIT, work).await.expect("the work goes on");
    assert!(matches!(lost, Err(RunError::Lost(LossReason::Forced))));
    idle(&locks).await;

    let _held = locks.write(&Sku("2")).acquire().await.unwrap();
    let started = AtomicBool::new(false);
    let refused = both().wait(SHORT).run(async |_| {
        started.store(true, Ordering::SeqCst);
    });
    assert!(matches!(refused.await, Err(RunError::Lock(LockError::Timeout { .. }))));
    assert!(!started.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_shutdown_ends_the_wait_for_the_rest_and_gives_back_what_is_held() {
    let (locks, _) = Faulty::locks();
    let mut keys = ["1", "2"].map(|id| Key::new("stock", id).unwrap());
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let last = locks.write_keys([keys[1].clone()]).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write_keys(keys.clone()).acquire());
    until("it waits", async || locks.inspect(keys[1].as_str()).await.unwrap().waiting == 1).await;
    locks.shutdown(SHORT).await;
    assert!(matches!(tasks.join_next().await.unwrap().unwrap(), Err(LockError::ShuttingDown)));
    drop(last);
    idle(&locks).await;
}
