use crate::redis::Script;

pub(super) static LEASE: Script = Script { name: "cache_lease", text: include_str!("../scripts/lease.lua") };
pub(super) static FILL: Script = Script { name: "cache_fill", text: include_str!("../scripts/fill.lua") };
pub(super) static ABORT: Script = Script { name: "cache_abort", text: include_str!("../scripts/abort.lua") };
pub(super) static INVALIDATE: Script =
    Script { name: "cache_invalidate", text: include_str!("../scripts/invalidate.lua") };
pub(super) static BEAT: Script = Script { name: "cache_beat", text: include_str!("../scripts/beat.lua") };

pub(super) static ALL: &[&Script] = &[&LEASE, &FILL, &ABORT, &INVALIDATE, &BEAT];
