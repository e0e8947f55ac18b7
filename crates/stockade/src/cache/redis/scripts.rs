use crate::redis::Script;

macro_rules! script {
    ($name:literal, $($file:literal),+) => {
        Script { name: $name, text: concat!($(include_str!(concat!("../scripts/", $file))),+) }
    };
}

pub(super) static LEASE: Script = script!("cache_lease", "tags.lua", "lease.lua");
pub(super) static FILL: Script = script!("cache_fill", "tags.lua", "fill.lua");
pub(super) static ABORT: Script = script!("cache_abort", "abort.lua");
pub(super) static INVALIDATE: Script = script!("cache_invalidate", "invalidate.lua", "drop.lua");
pub(super) static INVALIDATE_TAG: Script = script!("cache_invalidate_tag", "tags.lua", "invalidate_tag.lua");
pub(super) static BEGIN: Script = script!("cache_begin", "begin.lua", "drop.lua");
pub(super) static END: Script = script!("cache_end", "end.lua", "drop.lua");
pub(super) static BEAT: Script = script!("cache_beat", "beat.lua");
pub(super) static JOIN: Script = script!("cache_join", "join.lua");
pub(super) static TRUST: Script = script!("cache_trust", "trust.lua");

pub(super) static ALL: &[&Script] =
    &[&LEASE, &FILL, &ABORT, &INVALIDATE, &INVALIDATE_TAG, &BEGIN, &END, &BEAT, &JOIN, &TRUST];
