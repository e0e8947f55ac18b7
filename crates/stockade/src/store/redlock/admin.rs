use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use redis::Value;

use super::{
    inner::Inner,
    keys::Keys,
    replies::{Taken, inspected, released},
    round::MOST_TOKENS,
    scripts::{FENCE, INSPECT, RELEASE},
};
use crate::{
    redis::{LinkError, Script},
    resource::Key,
    store::{
        Forced, Inspection, LockError, Mode, Party, Token,
        redis::parts::{SEED, scan},
    },
};

/// The holders of a resource on the servers that answered: each value, with the time it has left on each server.
type Holders = BTreeMap<Vec<u8>, Vec<Duration>>;

impl Inner {
    /// The answers of all servers that gave one.
    ///
    /// # Errors
    ///
    /// If fewer servers than a quorum answered.
    async fn ask_all<T>(
        &self,
        script: &'static Script,
        keys: &[String],
        args: &[Vec<u8>],
        read: impl Fn(&Value) -> Result<T, LinkError>,
    ) -> Result<Vec<T>, LockError> {
        let replies = join_all(self.nodes.iter().map(|node| node.link.call_again(script, keys, args))).await;
        self.quorum_of(replies.into_iter().filter_map(|reply| read(&reply.ok()?).ok()).collect())
    }

    fn quorum_of<T>(&self, answers: Vec<T>) -> Result<Vec<T>, LockError> {
        if answers.len() < self.quorum() { Err(self.no_quorum()) } else { Ok(answers) }
    }

    pub(super) async fn seed(&self, key: &Key, token: Token) -> Result<(), LockError> {
        self.floors.note(key, token.get());
        let floor = [self.keys.floor(key.bucket())];
        self.ask_all(&SEED, &floor, &[token.to_string().into_bytes()], |_| Ok(())).await.map(drop)
    }

    async fn holders(&self, key: &Key) -> Result<Holders, LockError> {
        let answers = self.ask_all(&INSPECT, &[self.keys.of(key).lock], &[], inspected).await?;
        let mut holders = Holders::new();
        for (value, left) in answers.into_iter().flatten() {
            holders.entry(value).or_default().push(left.unwrap_or(Duration::MAX));
        }
        Ok(holders)
    }

    pub(super) async fn inspect(&self, key: &Key) -> Result<Inspection, LockError> {
        let holders = self.holders(key).await?.into_values().filter_map(|mut left| {
            // The lock is held for as long as a quorum of servers stores the value.
            left.sort_unstable_by(|a, b| b.cmp(a));
            let remaining = *left.get(self.quorum() - 1)?;
            Some(Party { mode: Mode::Write, tag: String::new(), token: None, age: None, remaining, position: None })
        });
        Ok(Inspection { holders: holders.collect(), ..Inspection::default() })
    }

    /// Deletes every value that holds the resource. As it deletes by value, a late deletion can't hit a later holder. A
    /// quorum knows the new token before the first value is gone, so the next holder's token is higher.
    pub(super) async fn force(self: &Arc<Self>, key: &Key) -> Result<Forced, LockError> {
        let names = self.keys.of(key);
        let holders = self.holders(key).await?;
        let token = self.fence(key).await?;
        for value in holders.keys() {
            self.ask_all(&RELEASE, std::slice::from_ref(&names.lock), std::slice::from_ref(value), released).await?;
        }
        let holders = holders.values().filter(|left| left.len() >= self.quorum()).count();
        Ok(Forced { holders: holders as u64, token })
    }

    /// A token that a quorum has written to its floors.
    async fn fence(&self, key: &Key) -> Result<Token, LockError> {
        let names = self.keys.of(key);
        for _ in 0..MOST_TOKENS {
            let token = self.next_token(key)?;
            let keys = [names.lock.clone(), names.floor.clone()];
            let args = [Vec::new(), token.to_string().into_bytes()];
            let answers = self.ask_all(&FENCE, &keys, &args, Taken::read).await?;
            for taken in &answers {
                if let Taken::Below { floor, .. } = taken {
                    self.floors.note(key, *floor);
                }
            }
            if answers.iter().filter(|taken| matches!(taken, Taken::Fenced { .. })).count() >= self.quorum() {
                return Ok(token);
            }
        }
        Err(self.no_quorum())
    }

    /// The resources that any answering server has a value for. A lock that is only partly taken or released is listed
    /// too.
    pub(super) async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        let Some(pattern) = self.keys.locks() else {
            let instead = "ask about single resources, or leave the names of the keys to the store";
            return Err(LockError::Unsupported { store: "redlock", operation: "list under given key names", instead });
        };
        let pages = join_all(self.nodes.iter().map(|node| scan(&node.link, &pattern, limit, Keys::resource))).await;
        let pages = self.quorum_of(pages.into_iter().filter_map(Result::ok).collect())?;
        let found: BTreeSet<_> = pages.into_iter().flatten().collect();
        Ok(found.into_iter().take(limit).collect())
    }
}
