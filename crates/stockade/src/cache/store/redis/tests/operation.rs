use super::{fuzz_state::Place, seen::SHAPE};
use crate::{
    cache::store::redis::{
        keys::Keys,
        scripts::{ABORT, BEGIN, CLEAR, END, FILL, HEARTBEAT, INVALIDATE, INVALIDATE_TAG, JOIN, LEASE, TRUST},
        stored::Stored,
    },
    redis::{Script, script},
    resource::Bucket,
};

pub(super) static FORGET: Script = script!("forget", "scripts/forget.lua");

/// A call on one key, or on the whole cache.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Lease {
        token: String,
        lease: u64,
        process: &'static str,
        early: bool,
        content: bool,
        longest: u64,
        run: String,
        /// The newest epoch that the process knows.
        known: u64,
    },
    Fill {
        token: String,
        value: String,
        ttl: u64,
        grace: u64,
        tags: String,
        run: String,
    },
    Abort {
        token: String,
        hold: u64,
        counts: bool,
        /// Whether its value can't be stored.
        unstorable: bool,
    },
    /// A read without a lease: the value, and the scores to check its tags.
    Read {
        run: String,
    },
    Invalidate,
    InvalidateTag {
        tag: &'static str,
        longest: u64,
        run: String,
        random: String,
    },
    /// A clear by a process that knows this epoch at most.
    Clear {
        known: u64,
    },
    /// The table of tags and the marker of the run are evicted.
    Lose,
    /// The epoch is evicted, and perhaps the marker of the run.
    LoseEpoch {
        marker: bool,
    },
    /// There are too many tags.
    Forget,
    Begin {
        intent: String,
        transaction: u64,
    },
    End {
        intent: String,
    },
    Join {
        run: String,
        longest: u64,
        known: u64,
    },
    Trust {
        run: String,
    },
    Beat {
        known: u64,
    },
}

impl Operation {
    pub(super) const TAGS: [&str; 3] = ["red", "deep blue", "größe:1"];
    /// The longest lease, in ms.
    pub(super) const LONGEST_LEASE: u64 = 300;

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Lease { .. } => "lease",
            Self::Fill { .. } => "fill",
            Self::Abort { .. } => "abort",
            Self::Read { .. } => "read",
            Self::Invalidate => "invalidate",
            Self::InvalidateTag { .. } => "invalidate tag",
            Self::Clear { .. } => "clear",
            Self::Lose => "lose",
            Self::LoseEpoch { .. } => "lose epoch",
            Self::Forget => "forget",
            Self::Begin { .. } => "begin",
            Self::End { .. } => "end",
            Self::Join { .. } => "join",
            Self::Trust { .. } => "trust",
            Self::Beat { .. } => "beat",
        }
    }

    /// How long the call keeps the entry, in µs; `None` if that is long enough.
    pub(super) fn keeps(&self) -> Option<u64> {
        match self {
            Self::Fill { ttl, grace, .. } => Some((ttl + grace) * 1000),
            _ => None,
        }
    }

    /// Adds the commands of the call.
    pub(super) fn send(
        &self,
        pipe: &mut redis::Pipeline,
        place: &Place,
        names: &Keys,
        sha: impl Fn(&Script) -> String,
    ) {
        match self {
            Self::Read { run } => {
                pipe.cmd("HGET").arg(&place.keys[0]).arg(Stored::field(SHAPE));
                pipe.cmd("ZMSCORE").arg(&place.keys[3]).arg(format!("e:{run}")).arg("f");
                for tag in Self::TAGS {
                    pipe.arg(format!("t:{tag}"));
                }
                // Stands for the messages that come before the reply.
                pipe.cmd("GET").arg(&place.keys[4]);
            }
            Self::LoseEpoch { marker } => {
                pipe.cmd("DEL").arg(&place.keys[4]).arg(marker.then(|| names.marker()));
            }
            Self::Lose => drop(pipe.cmd("DEL").arg(&place.keys[3]).arg(names.marker())),
            _ => {
                let (script, keys, args) = self.call(place, names);
                pipe.cmd("EVALSHA").arg(sha(script)).arg(keys.len()).arg(keys).arg(args);
            }
        }
    }

    /// How many commands [`Operation::send`] adds.
    pub(super) fn commands(&self) -> usize {
        if matches!(self, Self::Read { .. }) { 3 } else { 1 }
    }

    fn call(&self, place: &Place, names: &Keys) -> (&'static Script, Vec<String>, Vec<String>) {
        let keys = place.keys.clone();
        let resource = place.key.as_str().to_owned();
        let (channel, inbox) = (names.channel(), names.inbox_prefix());
        let (bucket, shape) = (place.key.bucket().index().to_string(), SHAPE.to_owned());
        let dropping = [resource.clone(), bucket.clone(), channel.clone(), inbox.clone()];
        let first = names.sequence(Bucket::FIRST);
        let (script, args) = match self.clone() {
            Self::Lease { token, lease, process, early, content, longest, run, known } => {
                let kind = if early { "early" } else { "miss" };
                let content = u8::from(content).to_string();
                let (lease, process, kind) = (lease.to_string(), process.to_owned(), kind.to_owned());
                let (longest, known) = (longest.to_string(), known.to_string());
                (&LEASE, vec![token, lease, process, kind, content, longest, run, shape, channel, known])
            }
            Self::Fill { token, value, ttl, grace, tags, run } => {
                let words = Stored::words(false, None, 7);
                let (ttl, grace, lease) = (ttl.to_string(), grace.to_string(), Self::LONGEST_LEASE.to_string());
                (&FILL, vec![token, value, words, ttl, grace, resource, inbox, run, tags, lease, shape])
            }
            Self::Abort { token, hold, counts, unstorable } => {
                let means = if unstorable { "u".to_owned() } else { u8::from(counts).to_string() };
                (&ABORT, vec![token, resource, inbox, hold.to_string(), shape, means])
            }
            Self::Invalidate => (&INVALIDATE, dropping.into()),
            Self::InvalidateTag { tag, longest, run, random } => {
                let args = vec![tag.to_owned(), channel, run, random, longest.to_string()];
                return (&INVALIDATE_TAG, vec![keys[3].clone(), first], args);
            }
            Self::Begin { intent, transaction } => {
                let args = [&dropping[..], &[intent, transaction.to_string()]].concat();
                return (&BEGIN, names.of_write(&place.key), args);
            }
            Self::End { intent } => {
                return (&END, names.of_write(&place.key), [&dropping[..], &[intent]].concat());
            }
            Self::Join { run, longest, known } => {
                let args = vec![run, longest.to_string(), channel, known.to_string()];
                return (&JOIN, vec![names.marker(), keys[4].clone()], args);
            }
            Self::Clear { known } => return (&CLEAR, vec![keys[4].clone()], vec![channel, known.to_string()]),
            Self::Trust { run } => return (&TRUST, vec![names.marker()], vec![run]),
            Self::Beat { known } => {
                let args = vec![channel, known.to_string(), bucket, Bucket::FIRST.index().to_string()];
                return (&HEARTBEAT, vec![keys[4].clone(), keys[2].clone(), first], args);
            }
            Self::Forget => return (&FORGET, vec![keys[3].clone()], Vec::new()),
            Self::Read { .. } | Self::Lose | Self::LoseEpoch { .. } => unreachable!("no script"),
        };
        (script, keys, args)
    }
}
