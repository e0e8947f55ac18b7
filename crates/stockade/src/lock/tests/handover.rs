use std::time::Duration;

use super::support::{LEASE, SHORT, Sku, idle, until};
use crate::lock::{Handover, HandoverTextError, LockError, Locks, LossReason, Mode, Released};

#[tokio::test]
async fn a_guard_goes_on_elsewhere() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).lease(LEASE).tag("import").acquire().await.unwrap();
    let (token, fence) = (guard.token(), guard.fence());
    let text = guard.hand_over().unwrap().to_text();
    assert_eq!((fence.loss(), fence.remaining()), (Some(LossReason::HandedOver), Duration::ZERO));
    assert_eq!(fence.lost().await, LossReason::HandedOver);
    let other = locks.clone();
    let adopted = other.adopt(Handover::from_text(&text).unwrap()).await.unwrap();
    assert!(adopted.token() > token);
    assert_eq!((adopted.mode(), adopted.key().as_str()), (Mode::Write, "stock:1"));
    assert_eq!(adopted.key().label(), "stock");
    assert_eq!(locks.inspect("stock:1").await.unwrap().holders[0].tag, "import");
    // The adopted lock is renewed from now on.
    assert!(matches!(locks.write(&Sku("1")).wait(LEASE * 2).acquire().await, Err(LockError::Timeout { .. })));
    assert!(adopted.is_held());
    let second = other.adopt(Handover::from_text(&text).unwrap()).await;
    assert!(matches!(second, Err(LockError::HandoverVoid)), "{second:?}");
    assert!(adopted.is_held());
    assert_eq!(adopted.release().await.unwrap(), Released::Released);
    idle(&locks).await;
}

#[tokio::test]
async fn a_handover_that_is_never_adopted_ends_with_its_lease() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let handover = guard.hand_over().unwrap();
    let next = locks.write(&Sku("1")).wait(Duration::from_secs(5)).acquire().await.unwrap();
    let late = locks.adopt(handover).await;
    assert!(matches!(late, Err(LockError::HandoverVoid)), "{late:?}");
    assert!(next.is_held());
}

#[tokio::test]
async fn the_longest_hold_goes_along() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).max_hold(SHORT * 2).acquire().await.unwrap();
    let adopted = locks.adopt(guard.hand_over().unwrap()).await.unwrap();
    assert!(adopted.is_held());
    // Well before the lease of 10 s would have ended.
    let next = locks.write(&Sku("1")).wait(Duration::from_secs(5)).acquire().await.unwrap();
    assert_eq!(adopted.loss(), Some(LossReason::Expired));
    assert!(next.token() > adopted.token());
}

#[tokio::test]
async fn a_guard_that_was_lost_is_not_handed_over() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).max_hold(SHORT).acquire().await.unwrap();
    until("lost", async || !guard.is_held()).await;
    let refused = guard.hand_over().unwrap_err();
    assert!(matches!(refused.error, LockError::Lost { reason: LossReason::Expired, .. }), "{refused}");
}

#[tokio::test]
async fn a_shutdown_refuses_to_adopt() {
    let locks = Locks::memory();
    let handover = locks.write(&Sku("1")).acquire().await.unwrap().hand_over().unwrap();
    locks.shutdown(SHORT).await;
    assert!(matches!(locks.adopt(handover).await, Err(LockError::ShuttingDown)));
}

#[tokio::test]
async fn a_text_says_all_and_only_a_whole_one_is_taken() {
    let locks = Locks::memory();
    for (guard, mode) in [
        (locks.write(&Sku("a;b c/\u{e9}")).max_hold(Duration::from_secs(60)).acquire().await.unwrap(), Mode::Write),
        (locks.read(&Sku("1")).acquire().await.unwrap(), Mode::Read),
        (locks.semaphore(&Sku("2"), 3).acquire().await.unwrap(), Mode::Permit),
    ] {
        let handover = guard.hand_over().unwrap();
        let text = handover.to_text();
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        let read = Handover::from_text(&text).unwrap();
        assert_eq!((read.key(), read.mode(), read.token()), (handover.key(), mode, handover.token()));
        assert_eq!(read.to_text(), text);
        for cut in 0..text.rfind(';').unwrap() {
            assert_eq!(Handover::from_text(&text[..cut]).unwrap_err(), HandoverTextError, "{cut}");
        }
        assert!(Handover::from_text(&text.replace("handover-2", "handover-3")).is_err());
        // The secret parts are not shown.
        let shown = format!("{handover:?}");
        let owner = text.split(';').nth(5).unwrap();
        assert!(!shown.contains(&owner[..16]) && !shown.contains(owner.rsplit('.').next().unwrap()), "{shown}");
    }
}
