use crate::{redis::Script, store::redis::parts};

macro_rules! script {
    ($name:literal, $($part:literal),+) => {
        Script { name: $name, text: concat!($(include_str!($part)),+) }
    };
}

pub(super) static ACQUIRE: Script = script!("acquire", "../redis/scripts/stamp.lua", "scripts/acquire.lua");
pub(super) static FENCE: Script = script!("fence", "scripts/fence.lua");
pub(super) static RELEASE: Script = script!("release", "scripts/release.lua");
pub(super) static EXTEND: Script = script!("renew", "scripts/extend.lua");
pub(super) static INSPECT: Script = script!("inspect", "scripts/inspect.lua");

pub(super) static ALL: &[&Script] = &[&ACQUIRE, &FENCE, &RELEASE, &EXTEND, &INSPECT, &parts::SEED, &parts::JOIN];
