//! Locks on ids of any length.

use std::{borrow::Cow, time::Duration};

use stockade::{
    Resource,
    lock::{Force, LockError},
};

use crate::world::World;

struct Path(String);

impl Resource for Path {
    const KIND: &'static str = "file";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

#[tokio::test]
async fn a_lock_on_a_long_id_is_held_and_is_forced_by_the_key_that_is_listed() {
    let server = World::start().await;
    let (one, two) = (server.locks().await, server.locks().await);
    let (path, other) = (Path("x".repeat(4000)), Path("x".repeat(4001)));
    let shown = format!("file:{}", path.0);
    let guard = one.write(&path).acquire().await.unwrap();
    let _other = one.write(&other).acquire().await.unwrap();
    let late = two.write(&path).wait(Duration::from_millis(1)).acquire().await.unwrap_err();
    assert!(matches!(&late, LockError::Timeout { key, .. } if key.to_string() == shown), "{late:?}");
    assert_eq!(two.inspect(&path).await.unwrap().holders[0].token, Some(guard.token()));

    let listed = two.list(10).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|key| key.len() < 128), "{listed:?}");
    let key = guard.key();
    assert_eq!(key.to_string(), shown);
    // The lock is found by the key that is stored, and by the text that was hashed.
    for name in [key.as_str(), &shown] {
        assert_eq!(two.inspect(name).await.unwrap().holders[0].token, Some(guard.token()));
    }
    two.force_release(key.as_str(), Force::Now).await.unwrap();
    let next = two.write(&path).try_acquire().await.unwrap();
    assert!(next.is_some(), "it was not forced");
    server.end().await;
}
