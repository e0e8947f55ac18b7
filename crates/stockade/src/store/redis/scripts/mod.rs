use crate::redis::{Script, script};

pub(super) static ACQUIRE: Script = script!(
    "acquire",
    "stamp.lua",
    "acquire.lua",
    "names.lua",
    "acquire_queued.lua",
    "mint.lua",
    "acquire_behind_writer.lua",
    "common.lua",
    "acquire_contended.lua"
);
pub(super) static MULTI: Script = script!("multi", "stamp.lua", "mint.lua", "multi.lua");
pub(super) static RELEASE: Script = script!(
    "release",
    "release.lua",
    "names.lua",
    "release_queued.lua",
    "mint.lua",
    "release_to_writer.lua",
    "common.lua",
    "release_contended.lua"
);
pub(super) static RENEW: Script = script!("renew", "renew.lua");
pub(super) static FORCE: Script =
    script!("force", "force.lua", "names.lua", "mint.lua", "common.lua", "force_body.lua");
pub(super) static DOWNGRADE: Script =
    script!("downgrade", "downgrade.lua", "names.lua", "mint.lua", "common.lua", "downgrade_body.lua");
pub(super) static ADOPT: Script =
    script!("adopt", "stamp.lua", "adopt.lua", "names.lua", "mint.lua", "common.lua", "adopt_body.lua");
pub(in crate::store) static SEED: Script = script!("seed", "seed.lua");
pub(super) static INSPECT: Script = script!("inspect", "inspect.lua");
pub(super) static FOREIGN: Script =
    script!("foreign", "foreign.lua", "names.lua", "mint.lua", "common.lua", "foreign_body.lua");

pub(super) static ALL: &[&Script] =
    &[&ACQUIRE, &MULTI, &RELEASE, &RENEW, &FORCE, &DOWNGRADE, &ADOPT, &SEED, &INSPECT, &FOREIGN];
