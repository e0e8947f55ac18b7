//! `testbed exec` as the owner that is killed.

use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::support::{eventually, pid_of, processes_with};

/// An owner of both servers, and what identifies them.
struct Owner {
    process: Child,
    command: u32,
    ports: [String; 2],
}

impl Owner {
    async fn start() -> Self {
        let script = "echo $$ ${REDIS_URL##*:} $(echo $DATABASE_URL | sed 's/.*:\\([0-9]*\\).*/\\1/'); exec sleep 600";
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.args(["exec", "--", "sh", "-c", script]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let [pid, redis, postgres] = line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        let ports = [format!("--port {redis} "), format!("-p {postgres} ")];
        Self { process, command: pid.parse().unwrap(), ports }
    }

    /// Servers, supervisors and the command.
    fn left(&self) -> Vec<u32> {
        let servers = self.ports.iter().flat_map(|port| processes_with(port));
        servers.chain([self.command].into_iter().filter(|pid| crate::support::is_alive(*pid))).collect()
    }

    fn servers(&self) -> Vec<u32> {
        self.ports.iter().flat_map(|port| processes_with(port)).collect()
    }

    async fn kill_and_see_all_gone(mut self) {
        let before = self.left();
        assert!(before.len() >= 5, "two servers, two supervisors and a command: {before:?}");
        self.process.kill().await.unwrap();
        eventually("all are gone", async || {
            before.iter().all(|pid| !crate::support::is_alive(*pid)) && self.left().is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn nothing_outlives_an_owner_that_is_killed() {
    Owner::start().await.kill_and_see_all_gone().await;
}

#[tokio::test]
async fn stopped_servers_do_not_outlive_an_owner_that_is_killed_either() {
    let owner = Owner::start().await;
    let supervisors = processes_with("Runs a server and never lets it outlive");
    for server in owner.servers().into_iter().filter(|pid| !supervisors.contains(pid)) {
        kill_process(pid_of(server), Signal::STOP).unwrap();
    }
    owner.kill_and_see_all_gone().await;
}
