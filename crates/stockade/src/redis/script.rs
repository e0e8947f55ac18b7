use redis::Value;

/// A Lua script: the name under which it is measured, and its text.
#[derive(Debug)]
pub(crate) struct Script {
    /// The `op` label of `stockade_redis_command_seconds`.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// Joins the files of a script. The common case comes before the helpers: it returns before Redis makes their closures.
macro_rules! script {
    ($name:literal, $($file:literal),+) => {
        $crate::redis::Script { name: $name, text: concat!($(include_str!($file)),+) }
    };
}

pub(crate) use script;

/// The text of a reply.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
