//! The scripts of the lease protocol. Each file describes its KEYS, ARGV and reply.

use crate::redis::{Script, script};

pub(super) static LEASE: Script = script!("cache_lease", "own.lua", "tags.lua", "epoch.lua", "lease.lua");
pub(super) static FILL: Script = script!("cache_fill", "own.lua", "tags.lua", "fill.lua");
pub(super) static ABORT: Script = script!("cache_abort", "own.lua", "abort.lua");
pub(super) static INVALIDATE: Script = script!("cache_invalidate", "own.lua", "invalidate.lua", "drop.lua");
pub(super) static INVALIDATE_TAG: Script = script!("cache_invalidate_tag", "own.lua", "tags.lua", "invalidate_tag.lua");
pub(super) static CLEAR: Script = script!("cache_clear", "epoch.lua", "clear.lua");
pub(super) static BEGIN: Script = script!("cache_begin", "own.lua", "begin.lua", "drop.lua");
pub(super) static END: Script = script!("cache_end", "own.lua", "end.lua", "drop.lua");
pub(super) static ANNOUNCED: Script = script!("cache_announced", "own.lua", "announced.lua");
pub(super) static HEARTBEAT: Script = script!("cache_beat", "own.lua", "epoch.lua", "heartbeat.lua");
pub(super) static JOIN: Script = script!("cache_join", "epoch.lua", "join.lua");
pub(super) static TRUST: Script = script!("cache_trust", "trust.lua");

pub(super) static ALL: &[&Script] =
    &[&LEASE, &FILL, &ABORT, &INVALIDATE, &INVALIDATE_TAG, &CLEAR, &BEGIN, &END, &ANNOUNCED, &HEARTBEAT, &JOIN, &TRUST];
