use crate::{redis::Script, store::redis::parts};

macro_rules! script {
    ($name:literal, $file:literal) => {
        Script { name: $name, text: include_str!(concat!("scripts/", $file)) }
    };
}

pub(super) static ACQUIRE: Script = script!("acquire", "acquire.lua");
pub(super) static FENCE: Script = script!("fence", "fence.lua");
pub(super) static RELEASE: Script = script!("release", "release.lua");
pub(super) static EXTEND: Script = script!("renew", "extend.lua");
pub(super) static INSPECT: Script = script!("inspect", "inspect.lua");

pub(super) static ALL: &[&Script] = &[&ACQUIRE, &FENCE, &RELEASE, &EXTEND, &INSPECT, &parts::SEED, &parts::JOIN];
