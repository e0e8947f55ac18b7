/// A Lua script: the name under which it is measured, and its text.
#[derive(Debug)]
pub(crate) struct Script {
    /// The `op` label of `stockade_redis_command_seconds`.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}
