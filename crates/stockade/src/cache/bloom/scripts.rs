use crate::redis::Script;

pub(super) static OPEN: Script = Script { name: "bloom_open", text: include_str!("scripts/open.lua") };
pub(super) static CHECK: Script = Script { name: "bloom_check", text: include_str!("scripts/check.lua") };
pub(super) static ADD: Script = Script { name: "bloom_add", text: include_str!("scripts/add.lua") };
pub(super) static BEGIN: Script = Script { name: "bloom_begin", text: include_str!("scripts/begin.lua") };
pub(super) static FINISH: Script = Script { name: "bloom_finish", text: include_str!("scripts/finish.lua") };
pub(super) static LOOK: Script = Script { name: "bloom_look", text: include_str!("scripts/look.lua") };
pub(super) static RESET: Script = Script { name: "bloom_reset", text: include_str!("scripts/reset.lua") };

pub(super) static ALL: &[&Script] = &[&OPEN, &CHECK, &ADD, &BEGIN, &FINISH, &LOOK, &RESET];
