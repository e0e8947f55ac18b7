use std::{collections::HashSet, time::Duration};

use super::fixture::{Fixture, key, read, write};
use crate::store::{Attempt, Force, Token};

pub(crate) async fn tokens_increase_whatever_ended_the_ownership_before(fixture: &Fixture) {
    let key = key("token");
    let mut last = 0;
    let mut above = |token: Token| {
        assert!(token.get() > last && token.get() < Token::LIMIT, "{token} after {last}");
        last = token.get();
    };
    let released = fixture.take(0, write(&key)).await;
    above(released.token);
    fixture.release(0, &released).await;

    let expiring = fixture.take(1, Attempt { lease: Duration::from_millis(200), ..write(&key) }).await;
    above(expiring.token);
    let after_expiry = fixture.take(0, write(&key)).await;
    above(after_expiry.token);

    let cancelled = fixture.enqueue(1, write(&key), 1).await;
    cancelled.cancel().await;
    let handed_over = fixture.enqueue(1, write(&key), 1).await;
    fixture.release(0, &after_expiry).await;
    let handed_over = handed_over.granted().await;
    above(handed_over.token);

    let forced = fixture.store(0).force(&key, Force::Now).await.expect("not forced");
    above(forced.token);
    let after_force = fixture.take(1, write(&key)).await;
    above(after_force.token);
    fixture.release(1, &after_force).await;

    // A forced release makes a token even without a holder: an administrator claims the fence with it.
    above(fixture.store(0).force(&key, Force::Now).await.expect("not forced").token);
}

pub(crate) async fn readers_have_tokens_of_their_own(fixture: &Fixture) {
    let key = key("readers");
    let writer = fixture.take(1, write(&key)).await;
    let readers = [fixture.enqueue(0, read(&key), 1).await, fixture.enqueue(1, read(&key), 2).await];
    fixture.release(1, &writer).await;
    let mut last = writer.token;
    for (n, reader) in readers.into_iter().enumerate() {
        let reader = reader.granted().await;
        assert!(reader.token > last, "{} after {last}", reader.token);
        last = reader.token;
        fixture.release(n, &reader).await;
    }
}

pub(crate) async fn a_seed_raises_the_tokens_that_follow(fixture: &Fixture) {
    let key = key("seed");
    let before = fixture.take(0, write(&key)).await;
    fixture.release(0, &before).await;
    // The seed is a day ahead of the clock that tokens are made from.
    let seed = Token::new(before.token.get() + 86_400_000_000).expect("a token");
    fixture.store(0).seed(&key, seed).await.expect("not seeded");
    let after = fixture.take(1, write(&key)).await;
    assert!(after.token > seed);
    fixture.release(1, &after).await;
    fixture.store(0).seed(&key, before.token).await.expect("not seeded");
    let later = fixture.take(1, write(&key)).await;
    assert!(later.token > after.token, "a lower seed must change nothing");
    fixture.release(1, &later).await;
}

pub(crate) async fn owners_are_never_repeated(fixture: &Fixture) {
    let key = key("owner");
    let mut seen = HashSet::new();
    for n in 0..20 {
        let ownership = fixture.take(n, write(&key)).await;
        assert_eq!(ownership.owner.as_str().len(), 28);
        assert!(seen.insert(ownership.owner.clone()));
        fixture.release(n, &ownership).await;
    }
}
