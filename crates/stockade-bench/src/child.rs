use std::{env, time::Duration};

use stockade_testbed::ChildProcess;
use tokio::process::Command;

use crate::contender::Failure;

const START: Duration = Duration::from_secs(30);

/// This program again, in another role.
pub(crate) struct Part(ChildProcess);

impl Part {
    /// `part` is the first argument. The child's environment holds `settings` and nothing else.
    pub(crate) fn start(part: &str, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(part).env_clear().envs(settings.iter().copied());
        Ok(Self(ChildProcess::start(command)?))
    }

    /// One line for the child to read.
    pub(crate) async fn tell(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.0.tell(text).await?)
    }

    /// Waits for the first line that contains `words`. Returns the text behind them.
    pub(crate) async fn says(&mut self, words: &str) -> Result<String, Failure> {
        Ok(self.0.says(words, START).await?)
    }
}
