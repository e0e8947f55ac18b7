//! Values that another program put under the keys of a lock.

use redis::Value;

use super::{inner::Inner, scripts::FOREIGN};
use crate::{
    redis::{LinkError, text},
    resource::Key,
    store::{LockError, Misplaced},
};

impl Inner {
    /// Turns the error of a script into the [`LockError`] for its caller. If a foreign value may have caused the error,
    /// a second script asks which key holds the value.
    pub(super) async fn explain(&self, key: &Key, error: &LinkError) -> LockError {
        let of_a_value = match error {
            LinkError::Refused { code } => matches!(code.as_str(), "FOREIGN" | "WRONGTYPE" | "ERR"),
            LinkError::Protocol { .. } => true,
            _ => false,
        };
        if !of_a_value {
            return self.unavailable(key, error);
        }
        let names = self.keys.of(key);
        let asked = match self.shard(key) {
            Ok(shard) => shard.link.call(&FOREIGN, names.clone(), Vec::new()).await,
            Err(error) => Err(error),
        };
        let misplaced = asked.ok().and_then(|reply| misplaced(&reply));
        let Some((at, expected)) = misplaced else {
            tracing::warn!(%error, label = %key.label(), "a script of the locks failed");
            return self.unavailable(key, error);
        };
        let redis_key = names.get(at).map_or("", String::as_str);
        tracing::warn!(
            %error,
            redis_key,
            "a key holds something else than {expected}: delete it, or overwrite it with `force_release`"
        );
        LockError::Foreign { key: key.clone(), expected }
    }
}

/// The index of the key among the keys of the resource, and what the key should hold.
fn misplaced(reply: &Value) -> Option<(usize, Misplaced)> {
    Some(match text(reply)? {
        "state" => (0, Misplaced::State),
        "floor" => (1, Misplaced::Floor),
        "queue" => (2, Misplaced::Queue),
        "waiters" => (3, Misplaced::Waiters),
        "holders" => (4, Misplaced::Holders),
        _ => return None,
    })
}
