use std::collections::BTreeSet;

use redis::Value;

use super::{
    calls,
    inner::{Inner, unavailable},
    keys::Keys,
    replies,
    scripts::{FORCE, INSPECT, SEED},
};
use crate::{
    redis::{LinkError, Script},
    resource::Key,
    store::{Force, Forced, Inspection, LockError, Token},
};

/// A listing asks the server at most this often; each time it looks at about [`SCANNED`] keys.
const SCANS: usize = 10_000;
const SCANNED: usize = 1000;

impl Inner {
    /// A call that may be repeated when the scripts were gone.
    async fn call(&self, script: &'static Script, keys: Vec<String>, args: Vec<Vec<u8>>) -> Result<Value, LockError> {
        let mut reply = self.link.call(script, keys.clone(), args.clone()).await;
        if let Err(LinkError::NoScript) = reply {
            reply = self.link.call(script, keys, args).await;
        }
        reply.map_err(|error| unavailable(&error))
    }

    pub(super) async fn seed(&self, key: &Key, token: Token) -> Result<(), LockError> {
        self.floors.note(key, token);
        let floor = vec![self.keys.floor(key.bucket())];
        self.call(&SEED, floor, vec![token.to_string().into_bytes()]).await.map(drop)
    }

    pub(super) async fn force(&self, key: &Key, force: Force) -> Result<Forced, LockError> {
        let reply = self.call(&FORCE, self.keys.of(key), calls::force(force, &self.handing())).await?;
        let (holders, token) = replies::forced(&reply).map_err(|error| unavailable(&error))?;
        self.floors.note(key, token);
        Ok(Forced { holders, token })
    }

    pub(super) async fn inspect(&self, key: &Key) -> Result<Inspection, LockError> {
        let reply = self.call(&INSPECT, self.keys.of(key), Vec::new()).await?;
        replies::inspection(&reply).map_err(|error| unavailable(&error))
    }

    pub(super) async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        for _ in 0..SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.keys.states()).arg("COUNT").arg(SCANNED);
            let reply = self.link.command("scan", scan).await.map_err(|error| unavailable(&error))?;
            let page: (String, Vec<String>) =
                redis::from_redis_value(reply).map_err(|_| unavailable(&LinkError::Protocol { op: "scan" }))?;
            found.extend(page.1.iter().filter_map(|name| Keys::resource(name)).map(str::to_owned));
            cursor = page.0;
            if cursor == "0" || found.len() >= limit {
                break;
            }
        }
        Ok(found.into_iter().take(limit).collect())
    }
}
