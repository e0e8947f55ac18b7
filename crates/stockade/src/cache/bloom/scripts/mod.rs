use crate::redis::{Script, script};

pub(super) static OPEN: Script = script!("bloom_open", "open.lua");
pub(super) static CHECK: Script = script!("bloom_check", "check.lua");
pub(super) static ADD: Script = script!("bloom_add", "add.lua");
pub(super) static BEGIN: Script = script!("bloom_begin", "begin.lua");
pub(super) static FINISH: Script = script!("bloom_finish", "finish.lua");
pub(super) static LOOK: Script = script!("bloom_look", "look.lua");
pub(super) static RESET: Script = script!("bloom_reset", "reset.lua");

pub(super) static ALL: &[&Script] = &[&OPEN, &CHECK, &ADD, &BEGIN, &FINISH, &LOOK, &RESET];
