//! A test that runs in a process of its own, which its parent can stop and kill.

use std::time::Duration;

use stockade_testbed::ChildProcess;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

/// Marks the lines of the child among those of the test harness.
const MARK: &str = "child: ";
const LIMIT: Duration = Duration::from_secs(20);

/// The parent's side of the child.
pub(crate) struct Child(pub(crate) ChildProcess);

impl Child {
    /// Starts this test binary again with one test only. The test finds its settings in the environment.
    pub(crate) fn start(test: &str, environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
        Self(ChildProcess::start(command).unwrap())
    }

    /// The next line of the child.
    pub(crate) async fn next(&mut self) -> String {
        self.0.says(MARK, LIMIT).await.unwrap()
    }

    /// The rest of its next line, which starts with `expected`.
    pub(crate) async fn says(&mut self, expected: &str) -> String {
        let said = self.next().await;
        let rest = said.strip_prefix(expected);
        rest.unwrap_or_else(|| panic!("expected `{expected}…`, the child said `{said}`")).to_owned()
    }

    pub(crate) async fn go_on(&mut self) {
        self.tell("go on").await;
    }

    /// Sends one line to the child.
    pub(crate) async fn tell(&mut self, text: &str) {
        self.0.tell(text).await.unwrap();
    }

    pub(crate) async fn kill(&mut self) {
        self.0.kill().await.unwrap();
    }

    /// Stops all threads of the child.
    pub(crate) async fn pause(&self) {
        self.0.pause().await.unwrap();
    }

    pub(crate) fn resume(&self) {
        self.0.resume().unwrap();
    }
}

/// In the child: tells the parent.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn say(text: &str) {
    println!("{MARK}{text}");
}

/// In the child: waits for the next line of the parent, and returns it.
pub(crate) async fn wait_for_parent() -> String {
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}
