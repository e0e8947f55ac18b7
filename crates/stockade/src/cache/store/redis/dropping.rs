use serde::de::DeserializeOwned;

use super::{
    remote::{LONGEST, Remote},
    reply::Reply,
    scripts::{ANNOUNCED, BEGIN, CLEAR, END, INVALIDATE, INVALIDATE_TAG},
};
use crate::{
    cache::{
        CacheError, LoadError,
        settings::Settings,
        store::{NotTaken, Outcomes, Token, some_at_a_time},
        strict::Intent,
        tags::Tag,
    },
    redis::{LinkError, Script},
    resource::{Bucket, Key, Label},
};

impl<V: DeserializeOwned + Send + Sync + 'static> Remote<V> {
    pub(crate) async fn invalidate(&self, keys: &[Key]) -> Outcomes<()> {
        self.drop_each(&INVALIDATE, keys, &[])
            .await
            .into_iter()
            .map(|reply| reply.map(drop).map_err(NotTaken::from))
            .collect()
    }

    pub(crate) async fn invalidate_tags(&self, tags: &[Tag]) -> Outcomes<()> {
        self.attempted().await;
        let keys = || vec![self.subscription.keys.tags(), self.subscription.keys.sequence(Bucket::FIRST)];
        let Settings { lease, ttl, null_ttl, grace, .. } = &*self.settings;
        let longest = lease.saturating_add(*ttl.end().max(null_ttl)).saturating_add(*grace);
        let longest = longest.min(LONGEST).as_micros().to_string();
        let calls: Vec<_> = tags
            .iter()
            .map(|tag| {
                let (channel, random) = (self.subscription.keys.channel(), Token::random());
                let (script, keys, args) = if tag.is_all() {
                    let args = vec![channel.into_bytes(), self.subscription.known_epoch()];
                    (&CLEAR, vec![self.subscription.keys.epoch()], args)
                } else {
                    let (tag, run) = (tag.as_str().as_bytes().to_vec(), self.run());
                    let args =
                        vec![tag, channel.into_bytes(), run, random.as_bytes().to_vec(), longest.clone().into_bytes()];
                    (&INVALIDATE_TAG, keys(), args)
                };
                async move { self.call_on(script, Bucket::FIRST, keys, args).await }
            })
            .collect();
        some_at_a_time(calls).await.into_iter().map(|reply| reply.map(drop).map_err(NotTaken::from)).collect()
    }

    pub(crate) async fn begin(&self, keys: &[Key], intent: &Intent) -> Result<(), CacheError> {
        let replies = self.drop_each(&BEGIN, keys, &[&intent.id, &intent.xid]).await;
        let begun: Result<Vec<_>, LinkError> = replies.into_iter().collect();
        begun.map(drop).map_err(|error| CacheError::Unavailable(LoadError::new(error)))
    }

    pub(crate) async fn end(&self, keys: &[Key], id: &str) -> Outcomes<bool> {
        let replies = self.drop_each(&END, keys, &[id]).await;
        replies.into_iter().map(|reply| Ok(reply?.word() == "ENDED")).collect()
    }

    pub(crate) async fn announced(&self, from: usize, count: usize) -> Result<Vec<(Key, Intent)>, CacheError> {
        let unavailable = |error| CacheError::Unavailable(LoadError::new(error));
        let ranks = [from, from + count - 1].map(|rank| rank.to_string().into_bytes()).into();
        let keys = vec![self.subscription.keys.announcements()];
        let mut reply = self.call_on(&ANNOUNCED, Bucket::FIRST, keys, ranks).await.map_err(unavailable)?;
        let announced = reply.announced();
        let key = |resource| Key::encoded(Label::Borrowed(self.settings.name), resource);
        Ok(announced.into_iter().filter_map(|(resource, intent)| Some((key(resource).ok()?, intent))).collect())
    }

    /// Runs a script that drops a value once for each key, and returns the replies. `more` are the script's arguments
    /// after those that all such scripts have. Many calls are sent before the first reply is awaited.
    async fn drop_each(&self, script: &'static Script, keys: &[Key], more: &[&str]) -> Vec<Result<Reply, LinkError>> {
        self.attempted().await;
        let (channel, inbox_prefix) = (self.subscription.keys.channel(), self.subscription.keys.inbox_prefix());
        let calls: Vec<_> = keys
            .iter()
            .map(|key| {
                let bucket = key.bucket().index().to_string();
                let mut args: Vec<Vec<u8>> =
                    [key.as_str(), &bucket, &channel, &inbox_prefix].map(|arg| arg.as_bytes().to_vec()).into();
                args.extend(more.iter().map(|arg| arg.as_bytes().to_vec()));
                async move { self.call_on(script, key.bucket(), self.subscription.keys.of_write(key), args).await }
            })
            .collect();
        // A call that fails does not stop the others.
        some_at_a_time(calls).await
    }
}
