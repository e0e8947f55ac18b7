//! Readers that share one ownership: what is the same for all of them, and what each reader has alone.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    lock::{LossReason, Mode, Token},
    resource::Key,
    store::{Owner, Ownership, Readers, Recall},
};

fn shared() -> (Arc<Ownership>, Arc<Readers>) {
    let (key, owner) = (Key::new("stock", "1").unwrap(), Owner::new("a".repeat(28)));
    let (lease, readers) = (Duration::from_secs(2), Arc::<Readers>::default());
    let until = Instant::now() + lease;
    let ownership = Ownership::new(key, owner, Mode::Read, Token::new(7).unwrap(), lease, until, None);
    (Arc::new(ownership.shared_by(Some(Arc::clone(&readers)))), readers)
}

#[test]
fn a_closed_gate_and_a_loss_are_those_of_one_reader() {
    let (shared, readers) = shared();
    let [one, other] = [(); 2].map(|()| Ownership::of_reader(&shared, None));
    assert_eq!((one.token, &one.owner, one.shared_since()), (shared.token, &shared.owner, shared.shared_since()));
    assert!(one.commits.close() && !one.commits.start());
    assert!(other.commits.start() && shared.commits.start());
    one.lose(LossReason::Expired);
    assert_eq!((one.loss(), one.shared_since()), (Some(LossReason::Expired), None));
    assert_eq!((other.loss(), shared.loss(), readers.recalled()), (None, None, None));
}

#[test]
fn a_loss_of_what_is_shared_is_one_of_all_readers_and_lets_nobody_in() {
    let (shared, readers) = shared();
    let reader = Ownership::of_reader(&shared, None);
    assert_eq!(reader.deadline(), shared.deadline());
    shared.lose(LossReason::Forced);
    assert_eq!((reader.loss(), reader.shared_since()), (Some(LossReason::Forced), None));
    assert_eq!(readers.recalled(), Some(Recall::Lost));
    assert!(!readers.enter());
}

#[test]
fn the_longest_hold_of_a_reader_is_its_own() {
    let (shared, _) = shared();
    let [brief, other] = [Some(Instant::now()), None].map(|ends_at| Ownership::of_reader(&shared, ends_at));
    assert_eq!((brief.loss(), other.loss(), shared.loss()), (Some(LossReason::Expired), None, None));
}

#[test]
fn what_is_renewed_for_the_others_does_not_go_on_for_one_who_has_gone() {
    let (shared, _) = shared();
    let reader = Ownership::of_reader(&shared, None);
    let deadline = reader.deadline();
    reader.give_back();
    shared.extend(deadline + Duration::from_secs(1));
    assert_eq!(reader.deadline(), deadline);
    assert!(shared.deadline() > deadline);
}
