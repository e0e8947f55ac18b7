use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::support::{SHORT, Sku, until};
use crate::lock::{Force, LockEvent, LockEventKind, Locks, LossReason, Mode};

/// Resource, mode and kind of each event so far.
type Told = Arc<Mutex<Vec<(String, Mode, LockEventKind)>>>;

fn watched() -> (Locks, Told) {
    let told = Told::default();
    let events = Arc::clone(&told);
    let on_event = move |event: &LockEvent<'_>| {
        events.lock().unwrap().push((event.resource.to_owned(), event.mode, event.kind));
    };
    (Locks::builder().on_event(on_event).memory(), told)
}

#[tokio::test]
async fn grants_hand_overs_and_losses_are_told_once_and_releases_are_not() {
    let (locks, told) = watched();
    let first = locks.write(&Sku("1")).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write(&Sku("1")).wait(Duration::from_secs(20)).acquire());
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    first.release().await.unwrap();
    let second = tasks.join_next().await.unwrap().unwrap().unwrap();
    locks.force_release("stock:1", Force::Now).await.unwrap();
    second.lost().await;
    drop(second);
    let read = locks.read(&Sku("2")).acquire().await.unwrap();
    drop(read);

    let told = told.lock().unwrap();
    let name = |number: usize| (told[number].0.as_str(), told[number].1);
    assert_eq!([name(0), name(1), name(2)], [("stock:1", Mode::Write); 3], "{told:?}");
    assert!(matches!(told[0].2, LockEventKind::Granted { handed_off: None, .. }), "{told:?}");
    assert!(matches!(told[1].2, LockEventKind::Granted { handed_off: Some(_), .. }), "{told:?}");
    assert_eq!(told[2].2, LockEventKind::Lost(LossReason::Forced));
    assert_eq!((name(3), told.len()), (("stock:2", Mode::Read), 4), "{told:?}");
}

#[tokio::test]
async fn a_lock_that_is_adopted_is_told_as_a_grant_and_its_loss_too() {
    let (locks, told) = watched();
    let given = locks.write(&Sku("1")).acquire().await.unwrap();
    let adopted = locks.adopt(given.hand_over().unwrap()).await.unwrap();
    locks.force_release("stock:1", Force::Now).await.unwrap();
    adopted.lost().await;
    let told = told.lock().unwrap();
    let [.., (_, _, granted), (_, _, lost)] = told.as_slice() else { panic!("{told:?}") };
    assert!(matches!(granted, LockEventKind::Granted { .. }), "{told:?}");
    assert_eq!(*lost, LockEventKind::Lost(LossReason::Forced));
}

#[tokio::test]
async fn each_of_several_resources_is_told_as_its_own() {
    let (locks, told) = watched();
    locks.write_all(&[Sku("1"), Sku("2")]).acquire().await.unwrap().release().await.unwrap();
    let names: Vec<_> = told.lock().unwrap().iter().map(|(resource, ..)| resource.clone()).collect();
    assert_eq!(names, ["stock:1", "stock:2"]);
}

#[tokio::test]
async fn a_panic_in_on_event_costs_no_lock() {
    let lease = Duration::from_secs(1);
    let locks = Locks::builder().lease(lease).on_event(|_| panic!("a bug in the log")).memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    // The task that renews all locks notices that this one is held for too long.
    let limited = locks.write(&Sku("2")).max_hold(SHORT).acquire().await.unwrap();
    assert_eq!(limited.lost().await, LossReason::Expired);
    let end = tokio::time::Instant::now() + 2 * lease;
    until("two leases are over", async || tokio::time::Instant::now() > end).await;
    assert!(guard.is_held(), "its renewal ended: {:?}", guard.loss());
}
