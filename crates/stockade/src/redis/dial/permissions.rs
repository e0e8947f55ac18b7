//! Checks which commands the user may run, before a script needs them.

use redis::aio::MultiplexedConnection;

use super::handshake_error::HandshakeError;
use crate::{
    redis::{Script, script},
    resource::Namespace,
};

const PROBE: Script = script!("permissions", "../scripts/permissions.lua");

/// Refuses a user that may not run some command of the scripts on the keys of the namespace. A script that is refused
/// in its middle would already have written. `channel`: by which command they publish, and where.
pub(in crate::redis) async fn check(
    connection: &mut MultiplexedConnection,
    scripts: &[&Script],
    namespace: &Namespace,
    channel: Option<(&str, &str)>,
) -> Result<(), HandshakeError> {
    let namespace = namespace.to_string();
    let mut probe = redis::cmd("EVAL");
    probe.arg(PROBE.text).arg(0).arg(&namespace).arg(channel.map_or("", |(_, name)| name));
    // By EVALSHA the scripts are called.
    for command in commands(scripts).into_iter().chain(["EVALSHA".to_owned()]) {
        // The scripts choose the form of a command by the name of the channel. Without a channel, a user of a cluster
        // would be asked for the wrong form.
        let asked = match (command.as_str(), channel) {
            ("PUBLISH" | "PUBSUB NUMSUB", None) => continue,
            ("PUBLISH", Some((publish, _))) => publish,
            ("PUBSUB NUMSUB", Some(("SPUBLISH", _))) => "PUBSUB SHARDNUMSUB",
            (command, _) => command,
        };
        probe.arg(asked);
    }
    let denied: Vec<String> = probe.query_async(connection).await?;
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
