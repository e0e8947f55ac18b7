use std::{env, time::Duration};

use stockade_testbed::ChildProcess;
use tokio::process::Command;

use crate::contender::Failure;

/// How long a child may take to say what it is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Starts this program again, in another role, which is the first argument. The child's environment holds `settings`
/// and nothing else.
pub(crate) fn start(role: &str, settings: &[(&str, &str)]) -> Result<ChildProcess, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(role).env_clear().envs(settings.iter().copied());
    Ok(ChildProcess::start(command)?)
}
