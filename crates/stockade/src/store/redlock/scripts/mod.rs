use crate::{
    redis::{Script, script},
    store::redis::parts,
};

pub(super) static ACQUIRE: Script = script!("acquire", "../../redis/scripts/stamp.lua", "acquire.lua");
pub(super) static FENCE: Script = script!("fence", "fence.lua");
pub(super) static RELEASE: Script = script!("release", "release.lua");
pub(super) static EXTEND: Script = script!("renew", "extend.lua");
pub(super) static INSPECT: Script = script!("inspect", "inspect.lua");

pub(super) static ALL: &[&Script] = &[&ACQUIRE, &FENCE, &RELEASE, &EXTEND, &INSPECT, &parts::SEED];
