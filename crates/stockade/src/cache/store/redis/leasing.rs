use std::{sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::{
    remote::{Remote, millis},
    reply::Reply,
    scripts::{ABORT, FILL, LEASE},
    stored::Stored,
};
use crate::{
    cache::{
        local::Reservation,
        store::{Filled, Filling, Hold, Lease, Token, Want},
        value::Entry,
    },
    redis::{LinkError, evalsha},
    resource::Key,
};

/// For how long a value that could not be stored is loaded without a lease. The script of the lease knows this time.
const UNSTORABLE: Duration = Duration::from_secs(1);

/// The first pause before a token is given back once more.
const AGAIN: Duration = Duration::from_millis(50);

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    pub(crate) async fn lease(&self, key: &Key, token: &Token, want: Want, has_fallback: bool) -> Lease<V> {
        let kind: &[u8] = match want {
            Want::Value => b"miss",
            Want::Load => b"early",
        };
        let args = vec![
            token.as_bytes().to_vec(),
            millis(self.settings.lease),
            self.subscription.keys.process.as_bytes().to_vec(),
            kind.to_vec(),
            u8::from(has_fallback).to_string().into_bytes(),
            millis(self.settings.hold_off),
            self.run(),
            self.fingerprint(),
            self.subscription.keys.channel().into_bytes(),
            self.subscription.known_epoch(),
        ];
        let replied = self
            .call_on(&LEASE, key.bucket(), self.subscription.keys.of_load(key), args)
            .await
            .and_then(|reply| self.leased(reply));
        replied.unwrap_or_else(|error| {
            tracing::debug!(%key, %error, "cache lease failed");
            // The server may have run the script, or may still run it. Others would then wait for a load that is never
            // stored.
            if !error.is_never_executed() {
                self.undo(key, token);
            }
            Lease::Down
        })
    }

    fn leased(&self, mut reply: Reply) -> Result<Lease<V>, LinkError> {
        match reply.word() {
            "HIT" => {
                let entry = reply.stored().and_then(|stored| self.entry(&stored).ok());
                Ok(entry.map_or(Lease::Unreadable, Lease::Hit))
            }
            "WAIT" => Ok(Lease::Wait(Duration::from_micros(reply.number()?))),
            "LEASED" => Ok(Lease::Granted(reply.stored().and_then(|stored| self.entry(&stored).ok()))),
            "HELD" => Ok(Lease::Held(reply.stored().and_then(|stored| self.entry(&stored).ok()))),
            "FAILING" => Ok(Lease::Failing(Duration::from_micros(reply.number()?))),
            "BYPASS" => Ok(Lease::Bypass(reply.intents())),
            _ => Err(reply.unexpected()),
        }
    }

    pub(crate) async fn fill(
        &self,
        key: &Key,
        token: &Token,
        reservation: Reservation,
        filling: Filling<'_, V>,
    ) -> Filled {
        let Entry { value, version, took, .. } = filling.entry;
        if let Ok(server) = self.server(key.bucket()) {
            server.link.carries(filling.bytes.len());
        }
        let args = vec![
            token.as_bytes().to_vec(),
            filling.bytes,
            Stored::words(value.is_none(), *version, took.as_micros()).into_bytes(),
            millis(filling.ttl),
            millis(self.settings.grace),
            key.as_str().as_bytes().to_vec(),
            self.subscription.keys.inbox_prefix().into_bytes(),
            self.run(),
            filling.entry.tags.as_packed().as_bytes().to_vec(),
            millis(self.settings.lease),
            self.fingerprint(),
        ];
        match self.call_on(&FILL, key.bucket(), self.subscription.keys.of_load(key), args).await {
            Ok(reply) if reply.word() == "ACCEPTED" => {
                let entry = Entry { stored: Some(reply.now), ..filling.entry.clone() };
                self.subscription.local.put(reservation, key, entry);
                Filled::Accepted
            }
            Ok(reply) => {
                if reply.word() == "OUTDATED" {
                    // It notifies the callers that wait for this load.
                    self.undo(key, token);
                }
                Filled::Refused
            }
            Err(error) => {
                tracing::debug!(%key, %error, "cache fill failed");
                self.undo(key, token);
                Filled::Unknown
            }
        }
    }

    /// Gives a token back in the background. Until then, or until the lease expires, all processes wait for a load that
    /// has ended. On the connection that carried an earlier command about the token this one comes after it. Without an
    /// answer it is sent again; a failure of the load is too old by then to hold others off.
    fn undo(&self, key: &Key, token: &Token) {
        let (servers, bucket) = (Arc::clone(&self.servers), key.bucket());
        let (keys, args) = (self.subscription.keys.of(key), self.aborting(key, token, Hold::No));
        let send = move || {
            let make = |sha: &str| evalsha(sha, keys.clone(), args.clone());
            servers.of(bucket).map(|server| server.link.call_regardless(&ABORT, &make, None))
        };
        let mut sent = send();
        let undoing = async move {
            let mut pause = AGAIN;
            loop {
                if let Some(reply) = sent
                    && reply.await.is_ok()
                {
                    return;
                }
                sleep(pause).await;
                pause = (pause * 2).min(AGAIN * 16);
                sent = send();
            }
        };
        let (lease, stop) = (self.settings.lease, self.stop.clone());
        self.tasks.spawn(async move { stop.run_until_cancelled(timeout(lease, undoing)).await });
    }

    fn fingerprint(&self) -> Vec<u8> {
        self.envelope.fingerprint().as_bytes().to_vec()
    }

    fn aborting(&self, key: &Key, token: &Token, hold: Hold) -> Vec<Vec<u8>> {
        let (window, means) = match hold {
            Hold::No => (Duration::ZERO, "0"),
            Hold::Failed { window, counts: false } => (window, "0"),
            Hold::Failed { window, counts: true } => (window, "1"),
            Hold::Unstorable => (UNSTORABLE, "u"),
        };
        vec![
            token.as_bytes().to_vec(),
            key.as_str().as_bytes().to_vec(),
            self.subscription.keys.inbox_prefix().into_bytes(),
            millis(window),
            self.fingerprint(),
            means.into(),
        ]
    }

    pub(crate) async fn abort(&self, key: &Key, token: &Token, hold: Hold) {
        let (keys, args) = (self.subscription.keys.of(key), self.aborting(key, token, hold));
        if let Err(error) = self.call_on(&ABORT, key.bucket(), keys, args).await {
            tracing::debug!(%key, %error, "cache abort failed");
            self.undo(key, token);
        }
    }
}
