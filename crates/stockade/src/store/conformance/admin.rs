use std::{slice, sync::Arc, time::Duration};

use super::fixture::{Fixture, LASTING, LATE, LIMIT, key, read, write};
use crate::{
    clock::Instant,
    store::{Attempt, Force, LossReason, Mode, Released},
};

pub(crate) async fn a_forced_release_tells_the_holder_and_serves_the_next(fixture: &Fixture) {
    let key = key("forced");
    let holder = fixture.take(0, write(&key)).await;
    let next = fixture.enqueue(1, write(&key), 1).await;
    let forced = fixture.store(1).force(&key, Force::Now).await.expect("not forced");
    assert_eq!(forced.holders, 1);
    assert!(forced.token > holder.token);
    let told = tokio::time::timeout(LIMIT, holder.lost()).await.expect("the holder is not told");
    assert_eq!(told, LossReason::Forced);
    let next = next.granted().await;
    assert!(next.token > forced.token);
    assert_eq!(fixture.release(0, &holder).await, Released::Lost);
    assert!(!fixture.is_free(&key, Mode::Read).await);
    fixture.release(1, &next).await;
}

pub(crate) async fn a_patient_force_lets_readers_run_out(fixture: &Fixture) {
    let key = key("patient");
    let lease = Duration::from_secs(1);
    let since = Instant::now();
    let reader = fixture.take(0, Attempt { lease, ..read(&key) }).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let forced = fixture.store(1).force(&key, Force::AfterLeases).await.expect("not forced");
    assert_eq!(forced.holders, 1, "those who may not renew count");
    // The reader goes on renewing, which must not keep its lock.
    let renewing = async {
        while writer.is_waiting() {
            fixture.store(0).renew(slice::from_ref(&reader)).await.expect("not renewed");
            let told = reader.loss();
            assert!(told.is_none() || since.elapsed() > lease / 2, "told in the middle of its lease: {told:?}");
            tokio::time::sleep(lease / 10).await;
        }
    };
    tokio::time::timeout(LIMIT, renewing).await.expect("the reader never ran out");
    let took = since.elapsed();
    assert!(took >= lease - Duration::from_millis(20) && took < lease + LATE, "took {took:?}");
    assert!(reader.loss().is_some());
    let writer = writer.granted().await;
    assert!(writer.token > reader.token);
    fixture.release(1, &writer).await;
}

pub(crate) async fn an_inspection_shows_holders_and_queue(fixture: &Fixture) {
    let key = key("inspected");
    let tagged = |attempt: Attempt, tag: &str| Attempt { tag: Arc::from(tag), ..attempt };
    let began = Instant::now();
    let holder = fixture.take(0, tagged(write(&key), "PUT /stock held")).await;
    let pause = Duration::from_millis(100);
    tokio::time::sleep(pause).await;
    let reader = fixture.enqueue(1, tagged(read(&key), "reader"), 1).await;
    tokio::time::sleep(pause).await;
    let writer = fixture.enqueue(0, tagged(write(&key), "writer"), 2).await;
    // The age counts from the grant; a renewal does not reset it.
    fixture.store(0).renew(slice::from_ref(&holder)).await.expect("not renewed");
    let inspection = fixture.inspect(&key).await;
    let took = began.elapsed();
    let [held] = inspection.holders.as_slice() else { panic!("{inspection:?}") };
    assert_eq!((held.mode, held.tag.as_str(), held.token), (Mode::Write, "PUT /stock held", Some(holder.token)));
    assert!(held.remaining > LASTING / 2 && held.remaining <= LASTING, "{held:?}");
    let waiters: Vec<_> = inspection.waiters.iter().map(|party| (party.mode, party.tag.as_str())).collect();
    assert_eq!(waiters, [(Mode::Read, "reader"), (Mode::Write, "writer")]);
    assert!(inspection.waiters.iter().all(|party| party.token.is_none() && party.remaining <= LIMIT));
    assert!(held.age >= Some(pause * 2) && held.age <= Some(took) && held.position.is_none(), "{held:?} {took:?}");
    let [first, second] = inspection.waiters.as_slice() else { panic!("{inspection:?}") };
    assert_eq!((first.position, second.position), (Some(1), Some(2)));
    assert!(
        first.age >= Some(pause) && first.age <= held.age && second.age.map(|age| age + pause) <= first.age,
        "{inspection:?}"
    );
    assert_eq!(fixture.store(1).list(10).await.unwrap(), [key.as_str()]);
    reader.cancel().await;
    writer.cancel().await;
    fixture.release(0, &holder).await;
    fixture.until_nothing_is_left().await;
    let inspection = fixture.inspect(&key).await;
    assert!(inspection.holders.is_empty() && inspection.waiters.is_empty() && inspection.waiting == 0);
}
