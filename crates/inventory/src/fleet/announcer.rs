use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use deadpool_redis::redis::Script;
use stockade::Redis;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval},
};

use super::member::{MOST, Member};
use crate::flash::Link;

/// The key of the list of instances.
const KEY: &str = "inventory:{fleet}";

/// The time between two announcements: five in a lease.
const PERIOD: Duration = Duration::from_secs(2);

/// How long an instance that is gone is listed.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/announce.lua")));

/// The instances, as Redis listed them last.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    members: Vec<Member>,
    /// Whether somebody reads the logs of all instances.
    pub(super) is_read: bool,
    at: Instant,
}

/// This instance, and a look at the others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(super) id: Arc<str>,
    address: Option<Arc<str>>,
    pub(super) listed: watch::Receiver<Listed>,
    wanted: Arc<Notify>,
    pub(super) link: Arc<Link>,
}

/// Announces this instance.
#[derive(Debug)]
pub struct Announcer {
    link: Arc<Link>,
    member: String,
    listed: watch::Sender<Listed>,
    wanted: Arc<Notify>,
}

/// Makes this process an instance of the fleet. `advertised` is the address at which others reach its operators' port,
/// which listens on `listens`.
#[must_use]
pub fn join(redis: &Redis, limit: Duration, advertised: Option<&str>, listens: SocketAddr) -> (Fleet, Announcer) {
    let id = format!("{:016x}", rand::random::<u64>());
    // Nobody reaches this instance at "all addresses".
    let own = (!listens.ip().is_unspecified()).then(|| listens.to_string());
    let address = advertised.map(str::to_owned).or(own);
    let (sender, listed) = watch::channel(Listed { members: Vec::new(), is_read: false, at: Instant::now() });
    let member = Member::text(&id, address.as_deref());
    let wanted = Arc::<Notify>::default();
    let link = Arc::new(Link::new(redis, limit));
    let announcer = Announcer { link: Arc::clone(&link), member, listed: sender, wanted: Arc::clone(&wanted) };
    (Fleet { id: id.into(), address: address.map(Into::into), listed, wanted, link }, announcer)
}

impl Fleet {
    /// The random id of this instance.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The address at which others reach this instance.
    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The other instances, each with the time since it announced itself. While Redis is away the last list stays, and
    /// its times grow. Each call has a new list made, for the next call.
    pub(crate) fn others(&self) -> Vec<Member> {
        self.wanted.notify_one();
        let listed = self.listed.borrow();
        let since = listed.at.elapsed();
        let others = listed.members.iter().filter(|member| member.id != *self.id);
        others.map(|member| Member { age: member.age + since, ..member.clone() }).collect()
    }
}

impl Announcer {
    /// Announces this instance until it is dropped.
    pub async fn run(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (forgotten, most, read) = (FORGOTTEN.as_millis().to_string(), MOST.to_string(), key("read"));
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.wanted.notified() => ticks.reset(),
            }
            let at = Instant::now();
            let (keys, args) = ([KEY, &read], [&*self.member, &forgotten, &most]);
            match self.link.run::<(bool, Vec<(Vec<u8>, u64)>)>(&ANNOUNCE, &keys, &args).await {
                Ok((is_read, reply)) => {
                    self.listed.send_replace(Listed { members: Member::all(&reply), is_read, at });
                }
                Err(error) => tracing::debug!(%error, "this instance is not announced to the other instances"),
            }
        }
    }
}

/// A key of the fleet. All of them are in one slot of a cluster.
pub(super) fn key(name: &str) -> String {
    format!("{KEY}:{name}")
}
