use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::Local;
use crate::{
    cache::{
        tags::{Tag, Tags},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

fn key(id: &str) -> Key {
    Key::new("stock", id).unwrap()
}

fn entry(value: u64, weight: u64) -> Entry<u64> {
    Entry { expires: Instant::now() + Duration::from_secs(60), ..Entry::new(Some(value), weight) }
}

#[test]
fn a_value_read_before_an_invalidation_is_not_put_after_it() {
    let local = Local::new(1 << 20, 1 << 10);
    let (a, b) = (key("a"), key("b"));
    let early = local.reserve(&a);
    local.invalidate(&a);
    assert!(!local.put(early, &a, entry(0, 8)));
    assert!(local.get(a.as_str()).is_none());
    assert!(local.put(local.reserve(&a), &a, entry(1, 8)));
    assert!(local.put(local.reserve(&b), &b, entry(2, 8)));
    local.invalidate(&a);
    assert!(local.get(a.as_str()).is_none());
    assert_eq!(local.get(b.as_str()).unwrap().value.as_deref(), Some(&2));
}

#[test]
fn weights_without_a_limit_hold_values() {
    for (capacity, heaviest) in [(u64::MAX, 1 << 10), (1 << 20, usize::MAX), (u64::MAX, usize::MAX)] {
        let (local, a) = (Local::new(capacity, heaviest), key("a"));
        assert!(local.put(local.reserve(&a), &a, entry(1, 8)));
        assert!(local.get(a.as_str()).is_some());
    }
}

#[test]
fn a_reader_is_told_once_that_a_value_was_dropped_and_only_lately() {
    let local = Local::new(1 << 20, 1 << 10);
    let (a, b, now) = (key("a"), key("b"), Instant::now());
    let drop_one = |key| {
        assert!(local.put(local.reserve(key), key, entry(0, 8)));
        local.invalidate(key);
    };
    local.invalidate(&a);
    assert!(local.reserve_unless_dropped(&a, now).is_some(), "there was no value");
    drop_one(&a);
    assert!(local.reserve_unless_dropped(&b, now).is_some());
    assert!(local.reserve_unless_dropped(&a, now).is_none());
    assert!(local.reserve_unless_dropped(&a, now).is_some());
    drop_one(&a);
    assert!(local.reserve_unless_dropped(&a, now + Duration::from_secs(2)).is_some());
    drop_one(&a);
    assert!(local.put(local.reserve(&a), &a, entry(1, 8)));
    assert!(local.reserve_unless_dropped(&a, now).is_some(), "the next value is there");
}

#[test]
fn what_was_found_in_the_store_takes_the_place_of_nothing_newer() {
    let local = Local::new(1 << 20, 1 << 10);
    let a = key("a");
    let now = Instant::now();
    let lived = |value, ago: u64, left: u64| {
        let (loaded, expires) = (now - Duration::from_secs(ago), now + Duration::from_secs(left));
        Entry { loaded, expires, ..entry(value, 8) }
    };
    let value = || local.get(a.as_str()).and_then(|entry| entry.value.as_deref().copied());
    // Both readers ask before either puts its value.
    let (found, loaded) = (local.reserve(&a), local.reserve(&a));
    assert!(local.put(loaded, &a, lived(1, 5, 60)));
    assert!(!local.put_found(found, &a, lived(0, 10, 60)));
    assert_eq!(value(), Some(1));
    assert!(local.put_found(found, &a, lived(2, 4, 60)));
    assert_eq!(value(), Some(2));
    // A value that this process loads replaces one that it found, whatever the clocks say.
    assert!(local.put(local.reserve(&a), &a, lived(3, 20, 0)));
    // The value that is here has expired.
    assert!(local.put_found(local.reserve(&a), &a, lived(4, 30, 60)));
    assert_eq!(value(), Some(4));
    local.flush();
    assert!(local.put_found(local.reserve(&a), &a, lived(5, 40, 60)));
    assert_eq!(value(), Some(5));
}

#[test]
fn what_is_found_of_the_load_that_is_here_stays_as_it_is_without_locks() {
    let local = Local::new(1 << 20, 1 << 10);
    let a = key("a");
    let of_load = |stored, value| Entry { stored: Some(stored), ..entry(value, 8) };
    let first = local.reserve(&a);
    assert!(local.put(first, &a, of_load(7, 1)));
    let (_, asked) = local.get_asked(a.as_str()).unwrap();
    assert!(!local.put_found(local.reserve(&a), &a, of_load(7, 1)));
    assert_eq!(local.get_asked(a.as_str()).unwrap().1, asked);
    // The value of a later load replaces it, and after an invalidation the value can be put again.
    assert!(local.put_found(local.reserve(&a), &a, of_load(8, 2)));
    assert_eq!(local.get(a.as_str()).unwrap().value.as_deref(), Some(&2));
    local.invalidate(&a);
    assert!(local.put_found(local.reserve(&a), &a, of_load(8, 2)));
}

#[test]
fn what_is_found_of_the_load_that_is_here_was_asked_for_anew_under_locks() {
    let local = Local::new(1 << 20, 1 << 10).under_locks(true);
    let a = key("a");
    let of_load = |stored, value| Entry { stored: Some(stored), ..entry(value, 8) };
    let asked = || local.get_asked(a.as_str()).map(|(entry, asked)| (*entry.value.unwrap(), asked));
    let (first, between) = (local.reserve(&a), Instant::now());
    let (second, third) = (local.reserve(&a), local.reserve(&a));
    let own = of_load(7, 1);
    assert!(local.put(first, &a, own.clone()));
    assert!(asked().unwrap().1 <= between);
    // Converted from the clock of the store, the value may seem older than on our own clock.
    let found = |by: u64| Entry { loaded: own.loaded - Duration::from_millis(by), ..own.clone() };
    assert!(local.put_found(third, &a, found(3)));
    let (_, latest) = asked().unwrap();
    assert!(latest > between);
    // A reader that asked earlier does not set the time back.
    assert!(local.put_found(second, &a, found(5)));
    assert_eq!(asked(), Some((1, latest)));
    // The value of another, older load.
    let other = Entry { loaded: own.loaded - Duration::from_millis(50), ..of_load(6, 0) };
    assert!(!local.put_found(local.reserve(&a), &a, other));
    assert_eq!(asked(), Some((1, latest)));
    let early = local.reserve(&a);
    local.invalidate(&a);
    assert!(!local.put_found(early, &a, found(0)));
}

#[test]
fn a_flush_voids_what_is_held_and_what_is_being_read() {
    let local = Local::new(1 << 20, 1 << 10);
    let a = key("a");
    assert!(local.put(local.reserve(&a), &a, entry(0, 8)));
    let early = local.reserve(&a);
    local.flush();
    assert!(local.get(a.as_str()).is_none());
    assert!(!local.put(early, &a, entry(0, 8)));
}

#[test]
fn a_tag_outdates_what_is_held_and_what_is_being_read() {
    let local = Local::new(1 << 20, 1 << 10);
    let (a, b) = (key("a"), key("b"));
    let tagged = |value, tags: &[&str]| Entry { tags: Tags::new(tags).unwrap(), ..entry(value, 8) };
    assert!(local.put(local.reserve(&a), &a, tagged(0, &["red", "round"])));
    assert!(local.put(local.reserve(&b), &b, entry(1, 8)));
    let early = local.reserve(&a);
    local.invalidate_tag(&Tag::new("round").unwrap());
    assert!(local.get(a.as_str()).is_none());
    assert_eq!(local.get(b.as_str()).unwrap().value.as_deref(), Some(&1));
    let (red, round) = (Tags::new(["red"]).unwrap(), Tags::new(["round"]).unwrap());
    assert!(local.holds(early, &red) && !local.holds(early, &round));
    assert!(!local.put(early, &a, tagged(0, &["round"])));
    assert!(local.put(local.reserve(&a), &a, tagged(2, &["red", "round"])));
    assert_eq!(local.get(a.as_str()).unwrap().value.as_deref(), Some(&2));
}

#[test]
fn the_weight_never_exceeds_its_bound_whatever_is_put() {
    const HEAVIEST: u64 = 40_000;
    for capacity in [1 << 20, 1_000_003] {
        let local = Local::new(capacity, 40_000);
        // Exact to the byte, which random puts would hardly reach.
        assert!(local.entries.capacity() <= capacity, "{} of {capacity}", local.entries.capacity());
        let mut rng = StdRng::seed_from_u64(capacity);
        for i in 0..20_000 {
            // Some keys come again, lighter or heavier.
            let key = key(&rng.random_range(0..2_000).to_string());
            let weight = if rng.random_ratio(1, 10) { HEAVIEST } else { rng.random_range(0..2_000) };
            local.put(local.reserve(&key), &key, entry(i, weight));
            assert!(local.weight() <= capacity, "{} of {capacity}", local.weight());
        }
        // A key's shard follows from its hash, and the heaviest value takes a third of a shard. So each shard may be
        // that much below its part.
        assert!(local.weight() > capacity / 2, "{} of {capacity}", local.weight());
    }
}

#[test]
fn the_heaviest_value_that_is_stored_has_room() {
    for capacity in [1 << 18, 16 << 20, 1 << 30] {
        let local = Local::new(capacity, 100_000);
        for i in 0..50 {
            let key = key(&i.to_string());
            local.put(local.reserve(&key), &key, entry(i, 100_000));
            assert!(local.get(key.as_str()).is_some(), "value {i} in {capacity}");
        }
    }
    // A value that does not fit at all is not kept, and the value that it would replace is dropped.
    let local = Local::new(1 << 18, 100_000);
    let a = key("a");
    assert!(local.put(local.reserve(&a), &a, entry(0, 8)));
    assert!(local.put(local.reserve(&a), &a, entry(1, 1 << 20)));
    assert!(local.get(a.as_str()).is_none());
    assert_eq!(local.weight(), 0);
}
