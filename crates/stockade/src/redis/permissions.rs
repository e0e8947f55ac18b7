//! What a user must be allowed to run, found out before it is needed.

use super::{Script, connection::Connection, dialer::HandshakeError};
use crate::resource::Namespace;

const PROBE: Script = Script { name: "permissions", text: include_str!("scripts/permissions.lua") };

/// Refuses a user that may not run some command of the scripts on the keys of the namespace: a script that finds out in
/// its middle has written already.
pub(super) async fn check(
    connection: &Connection,
    scripts: &[&Script],
    namespace: &Namespace,
    channel: &str,
) -> Result<(), HandshakeError> {
    let mut probe = redis::cmd("EVAL");
    let namespace = namespace.to_string();
    probe.arg(PROBE.text).arg(0).arg(&namespace).arg(channel);
    for command in commands(scripts) {
        probe.arg(command);
    }
    let reply = connection.start(probe)?.await?.extract_error()?;
    let denied: Vec<String> = redis::from_redis_value(reply).map_err(redis::RedisError::from)?;
    if denied.is_empty() {
        return Ok(());
    }
    if denied == [namespace.as_str()] {
        return Err(HandshakeError::Forbidden { what: format!("keys that begin with `{namespace}`") });
    }
    let what = denied.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ");
    Err(HandshakeError::Forbidden { what: format!("the commands {what}") })
}

/// The commands that the scripts call, each once: `NAME` or `NAME SUBCOMMAND`.
pub(crate) fn commands(scripts: &[&Script]) -> Vec<String> {
    let mut found = Vec::new();
    for script in scripts {
        for call in script.text.split("call('").skip(1) {
            let mut words = call.split('\'');
            let (name, between, second) = (words.next(), words.next(), words.next());
            let is_word = |text: &&str| text.bytes().all(|byte| byte.is_ascii_uppercase());
            found.extend(name.filter(is_word).map(|name| match second.filter(is_word) {
                Some(second) if name == "PUBSUB" && between == Some(", ") => format!("{name} {second}"),
                _ => name.to_owned(),
            }));
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_script_are_found_in_its_text() {
        const SCRIPT: Script = Script {
            name: "some",
            text: "redis.call('GET', KEYS[1])\nif redis.pcall('PUBSUB', 'NUMSUB', x) then redis.call('SET', 'A') end\n\
                   return redis.call('GET', 'A')",
        };
        assert_eq!(commands(&[&SCRIPT]), ["GET", "PUBSUB NUMSUB", "SET"]);
    }
}
