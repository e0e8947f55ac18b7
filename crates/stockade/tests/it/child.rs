//! A test that runs in a process of its own, to be stopped and killed.

use std::{process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
};

/// Marks its lines among those of the test harness.
const MARK: &str = "child: ";

/// The parent's end.
pub(crate) struct Child {
    pub(crate) process: tokio::process::Child,
    input: ChildStdin,
    pub(crate) output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// This test binary again, running one test only, which finds what it needs in its environment.
    pub(crate) fn start(test: &str, environment: &[(&str, String)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .envs(environment.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, input, output }
    }

    /// What it says next.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            let line = self.output.next_line().await.unwrap().expect("the child ended early");
            // The harness writes its own text on the same line.
            if let Some((_, said)) = line.split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    /// The rest of its next line, which starts with `expected`.
    pub(crate) async fn says(&mut self, expected: &str) -> String {
        let said = tokio::time::timeout(Duration::from_secs(20), self.next()).await.expect("the child is silent");
        let rest = said.strip_prefix(expected);
        rest.unwrap_or_else(|| panic!("expected `{expected}…`, the child said `{said}`")).to_owned()
    }

    pub(crate) async fn go_on(&mut self) {
        self.tell("go on").await;
    }

    /// One line.
    pub(crate) async fn tell(&mut self, text: &str) {
        self.input.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Stops it, and returns when all its threads stand still: until the one that takes the signal has had its turn,
    /// which on a busy machine is not at once, the others go on.
    pub(crate) async fn stop(&self) {
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stopped = tokio::time::timeout(Duration::from_secs(20), async {
            while waitid(WaitId::Pid(self.pid()), options).unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        stopped.await.expect("the child can't be stopped");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id().unwrap()).unwrap()).unwrap()
    }
}

/// In the child: tells the parent.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn say(text: &str) {
    println!("{MARK}{text}");
}

/// In the child: waits until the parent says to go on, or whatever it is that it says.
pub(crate) async fn wait_for_parent() -> String {
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}
