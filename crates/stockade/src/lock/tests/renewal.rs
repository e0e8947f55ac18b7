use std::{sync::Arc, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use super::support::{Faulty, LEASE, LIMIT, SHORT, Sku, until};
use crate::{
    lock::{Guard, Locks, LossReason, Released, renewal::Renewals},
    resource::Key,
    store::LockStore,
};

#[tokio::test]
async fn renewals_that_fail_are_repeated_before_the_deadline() {
    let (locks, store) = Faulty::locks();
    let lease = LEASE * 2;
    let guard = locks.write(&Sku("1")).lease(lease).acquire().await.unwrap();
    store.fail_renewals(2);
    until("renewed after failures", async || store.renewals("stock:1") >= 5).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_renewal_that_hangs_is_given_up_for_another() {
    let (locks, store) = Faulty::locks();
    store.hang_renewals_of("stock:1");
    let guard = locks.write(&Sku("1")).lease(LEASE * 3).acquire().await.unwrap();
    until("a second attempt", async || store.renewals("stock:1") >= 2).await;
    assert!(guard.is_held(), "given up too late");
    store.hang_renewals_of("nothing");
    until("renewed again", async || store.renewals("stock:1") >= 4).await;
    assert!(guard.is_held());
}

/// Acquires on a runtime of another thread, which is driven no longer than that. Dropping the sender ends the thread.
async fn acquired_elsewhere(locks: &Locks, key: &'static str) -> (Guard, std::sync::mpsc::Sender<()>) {
    let (locks, (tell, told), (end, ended)) = (locks.clone(), oneshot::channel(), std::sync::mpsc::channel::<()>());
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let guard = runtime.block_on(locks.write(&Sku(key)).lease(LEASE * 3).acquire()).unwrap();
        assert!(tell.send(guard).is_ok());
        let _ = ended.recv();
    });
    (told.await.unwrap(), end)
}

#[tokio::test]
async fn locks_are_renewed_at_home_although_the_runtime_that_took_the_first_one_stands_still() {
    let (locks, store) = Faulty::locks();
    let (first, _end) = acquired_elsewhere(&locks, "1").await;
    let second = locks.write(&Sku("2")).lease(LEASE * 3).acquire().await.unwrap();
    until("both are renewed", async || store.renewals("stock:1") > 1 && store.renewals("stock:2") > 1).await;
    assert!(first.is_held() && second.is_held());
}

#[test]
fn locks_whose_home_has_ended_are_renewed_where_they_are_taken() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (locks, store) = runtime().block_on(async { Faulty::locks() });
    runtime().block_on(async {
        let guard = locks.write(&Sku("1")).lease(LEASE * 3).acquire().await.unwrap();
        until("renewed", async || store.renewals("stock:1") > 1).await;
        assert!(guard.is_held());
    });
}

#[tokio::test]
async fn a_silent_store_cannot_keep_a_loss_from_its_holder() {
    let (locks, store) = Faulty::locks();
    store.hang_renewals_of("stock:1");
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let told = tokio::time::timeout(LIMIT, guard.fence().ownership.lost()).await;
    assert_eq!(told.expect("the renewal task is blocked"), LossReason::Expired);
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[test]
fn a_fence_learns_of_the_end_of_its_lease_without_any_task() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let home = runtime();
    let guard = home.block_on(Locks::memory().write(&Sku("1")).lease(LEASE).acquire()).unwrap();
    // The task that renews ends with its runtime.
    drop(home);
    let fence = guard.fence();
    let told = runtime().block_on(async { tokio::time::timeout(LIMIT, fence.lost()).await });
    assert_eq!(told.expect("never told"), LossReason::Expired);
    assert_eq!(fence.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn a_renewal_that_hangs_delays_neither_renewals_nor_losses_of_others() {
    let (locks, store) = Faulty::locks();
    store.hang_renewals_of("stock:hangs");
    let hanging = locks.write(&Sku("hangs")).lease(LEASE * 3).acquire().await.unwrap();
    until("its renewal hangs", async || store.renewals("stock:hangs") == 1).await;
    let other = locks.write(&Sku("other")).lease(LEASE * 2).acquire().await.unwrap();
    let limited = locks.write(&Sku("limited")).max_hold(SHORT).acquire().await.unwrap();
    until("the other is renewed", async || store.renewals("stock:other") >= 1).await;
    limited.fence().ownership.lost().await;
    assert!(hanging.is_held(), "the others waited for it");
    hanging.fence().ownership.lost().await;
    assert!(other.is_held());
}

/// Resources whose renewals are always due together.
fn due_together<const N: usize>() -> [Sku; N] {
    let bucket = |id: &str| Key::new("stock", id).unwrap().bucket();
    let mut ids = (0..).map(|n: u32| n.to_string()).filter(|id| bucket(id) == bucket("0"));
    std::array::from_fn(|_| Sku(Box::leak(ids.next().unwrap().into_boxed_str())))
}

#[tokio::test]
async fn a_shard_that_does_not_answer_keeps_no_other_from_being_renewed() {
    let (locks, store) = Faulty::locks();
    let [stuck, other] = due_together();
    let name = |sku: &Sku| format!("stock:{}", sku.0);
    store.put_on_shard(&name(&stuck), 1);
    store.hang_renewals_of(&name(&stuck));
    let lease = LEASE * 2;
    let hanging = locks.write(&stuck).lease(lease).acquire().await.unwrap();
    let kept = locks.write(&other).lease(lease).acquire().await.unwrap();
    tokio::time::timeout(LIMIT, hanging.lost()).await.expect("not told");
    until("renewed for longer", async || store.renewals(&name(&other)) >= 10).await;
    assert!(kept.is_held());
    assert!(store.renewals(&name(&stuck)) >= 2, "tried again before it was lost");
}

/// Starting a task costs more than the rest of a short lock, since it wakes another thread.
#[tokio::test]
async fn a_lock_that_is_held_for_a_moment_leaves_its_task_to_the_next() {
    let (locks, store) = Faulty::locks();
    let shared: Arc<dyn LockStore> = store;
    let renewals = Renewals::new(shared, None);
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    for _ in 0..3 {
        renewals.add(&guard.fence().ownership, None).end();
        tokio::task::yield_now().await;
        assert_eq!(renewals.tasks(), 1);
    }
}

#[tokio::test]
async fn nothing_is_renewed_after_a_release_or_a_loss() {
    let (locks, store) = Faulty::locks();
    let released = locks.write(&Sku("released")).lease(LEASE).acquire().await.unwrap();
    let lost = locks.write(&Sku("lost")).lease(LEASE).acquire().await.unwrap();
    let kept = locks.write(&Sku("kept")).lease(LEASE).acquire().await.unwrap();
    released.release().await.unwrap();
    lost.fence().ownership.lose(LossReason::Stolen);
    until("others are renewed", async || store.renewals("stock:kept") >= 3).await;
    assert_eq!(store.renewals("stock:released"), 0);
    assert_eq!(store.renewals("stock:lost"), 0);
    drop(kept);
}

#[tokio::test]
async fn renewals_that_are_due_together_are_one_call_for_all() {
    let (locks, store) = Faulty::locks();
    let skus: [Sku; 50] = due_together();
    let mut guards = Vec::new();
    for sku in &skus {
        guards.push(locks.write(sku).lease(LEASE).acquire().await.unwrap());
    }
    until("all are renewed twice", async || skus.iter().all(|Sku(id)| store.renewals(&format!("stock:{id}")) >= 2))
        .await;
    let (calls, renewals) = store.renewal_calls();
    assert!(calls * 5 < renewals, "{calls} calls for {renewals} renewals");
    assert!(guards.iter().all(Guard::is_held));
}

#[tokio::test]
async fn no_task_is_left_when_locks_and_guards_are_gone() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let waiting = locks.write(&Sku("1")).wait(SHORT).acquire().await;
    assert!(waiting.is_err());
    assert!(Handle::current().metrics().num_alive_tasks() > 0);
    drop(guard);
    drop(locks);
    until("no task", async || Handle::current().metrics().num_alive_tasks() == 0).await;
}
