use crate::redis::Script;

/// The helpers stand between the common case, which returns before them, and the rest.
macro_rules! script {
    ($name:literal, $first:literal, $second:literal) => {
        Script {
            name: $name,
            text: concat!(
                include_str!(concat!("scripts/", $first)),
                include_str!("scripts/common.lua"),
                include_str!(concat!("scripts/", $second))
            ),
        }
    };
    ($name:literal, $file:literal) => {
        Script { name: $name, text: include_str!(concat!("scripts/", $file)) }
    };
}

pub(super) static ACQUIRE: Script = script!("acquire", "acquire.lua", "acquire_contended.lua");
pub(super) static MULTI: Script = script!("multi", "multi.lua");
pub(super) static RELEASE: Script = script!("release", "release.lua", "release_contended.lua");
pub(super) static RENEW: Script = script!("renew", "renew.lua");
pub(super) static FORCE: Script = script!("force", "force.lua", "force_body.lua");
pub(super) static DOWNGRADE: Script = script!("downgrade", "downgrade.lua", "downgrade_body.lua");
pub(super) static ADOPT: Script = script!("adopt", "adopt.lua", "adopt_body.lua");
pub(in crate::store) static SEED: Script = script!("seed", "seed.lua");
pub(in crate::store) static JOIN: Script = script!("join", "join.lua");
pub(super) static INSPECT: Script = script!("inspect", "inspect.lua");
pub(super) static FOREIGN: Script = script!("foreign", "foreign.lua", "foreign_body.lua");

pub(super) static ALL: &[&Script] =
    &[&ACQUIRE, &MULTI, &RELEASE, &RENEW, &FORCE, &DOWNGRADE, &ADOPT, &SEED, &JOIN, &INSPECT, &FOREIGN];
