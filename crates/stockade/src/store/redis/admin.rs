use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use redis::Value;

use super::{
    commands::{
        calls::{self, Handing},
        keys::Keys,
        replies,
    },
    inner::{Inner, unavailable, unavailable_as},
    scripts::{FORCE, INSPECT, SEED},
    shard::Shard,
};
use crate::{
    clock::Instant,
    redis::{Link, LinkError, Redirects, Script},
    resource::{Bucket, Key},
    store::{Force, Forced, Inspection, LockError, Token},
};

/// A listing sends at most this many SCAN commands to each server.
const SCANS: usize = 10_000;
/// About how many keys one SCAN looks at.
const SCANNED: usize = 1000;

impl Inner {
    /// Calls a script on the server that has the resource. Follows redirects, and calls once more if the server had
    /// lost the scripts.
    async fn call(
        &self,
        key: &Key,
        (script, is_repeatable): (&'static Script, bool),
        keys: Vec<String>,
        args: impl Fn(&Handing<'_>) -> Vec<Vec<u8>> + Send + Sync,
    ) -> Result<Value, LockError> {
        let call = async || {
            let shard = self.shard(key)?;
            let args = args(&shard.handing(&self.keys, key.bucket()));
            shard.link.call_again(script, &keys, &args).await
        };
        self.shards.attempted(key.bucket(), self.timeout).await;
        let mut redirects = Redirects::new(&self.shards, Some(Instant::now()));
        loop {
            match call().await {
                Ok(reply) => return Ok(reply),
                Err(error)
                    if redirects.follow(&self.shards, &error).await
                        || (is_repeatable || error.is_never_executed())
                            && redirects.reconnect(&self.shards, key.bucket(), &error).await => {}
                Err(error) => {
                    self.shards.suspect(&error);
                    return Err(self.explain(key, &error).await);
                }
            }
        }
    }

    pub(super) async fn seed(&self, key: &Key, token: Token) -> Result<(), LockError> {
        self.floors.note(key, token.get());
        let floor = vec![self.keys.floor(key.bucket())];
        self.call(key, (&SEED, true), floor, |_| vec![token.to_string().into_bytes()]).await.map(drop)
    }

    pub(super) async fn force(&self, key: &Key, force: Force) -> Result<Forced, LockError> {
        let args = |handing: &Handing<'_>| calls::force(force, handing);
        let reply = self.call(key, (&FORCE, false), self.keys.of(key), args).await?;
        let (holders, token) = replies::forced(&reply).map_err(|error| unavailable(&error))?;
        self.floors.note(key, token.get());
        Ok(Forced { holders, token })
    }

    pub(super) async fn inspect(&self, key: &Key) -> Result<Inspection, LockError> {
        let reply = self.call(key, (&INSPECT, true), self.keys.of(key), |_| Vec::new()).await?;
        match replies::inspection(&reply) {
            Ok(inspection) => Ok(inspection),
            Err(error) => Err(self.explain(key, &error).await),
        }
    }

    pub(super) async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        self.shards.attempted(Bucket::FIRST, self.timeout).await;
        let shards = self.shards.every();
        let lists = shards.iter().map(|shard| self.list_shard(shard, limit));
        let found: BTreeSet<_> = try_join_all(lists).await?.into_iter().flatten().collect();
        Ok(found.into_iter().take(limit).collect())
    }

    async fn list_shard(&self, shard: &Shard, limit: usize) -> Result<BTreeSet<String>, LockError> {
        shard.link.attempted().await;
        let found = scan(&shard.link, &self.keys.states(), limit, Keys::resource).await;
        found.map_err(|error| unavailable_as(&error, shard.link.unfit()))
    }
}

/// The resources of the keys of one server that match `pattern`, until there are `limit`. `resource` takes the resource
/// from the name of a key.
pub(in crate::store) async fn scan(
    link: &Link,
    pattern: &str,
    limit: usize,
    resource: fn(&str) -> Option<&str>,
) -> Result<BTreeSet<String>, LinkError> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    for _ in 0..SCANS {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED);
        let reply = link.command("scan", scan).await?;
        let page: (String, Vec<String>) =
            redis::from_redis_value(reply).map_err(|_| LinkError::Protocol { op: "scan" })?;
        found.extend(page.1.iter().filter_map(|name| resource(name)).map(str::to_owned));
        cursor = page.0;
        if cursor == "0" || found.len() >= limit {
            break;
        }
    }
    Ok(found)
}
