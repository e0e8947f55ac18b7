//! `testbed exec` as the owner that is killed.

use std::{path::Path, process::Stdio};

use rustix::process::{Signal, kill_process};
use stockade_testbed::{RedisCluster, RedisServer, SentinelGroup, eventually};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::support::{children_of, is_alive, pid_of, processes_with};

/// A part of the command line of a supervisor.
const SUPERVISOR: &str = "Runs a server and never lets it outlive";

/// An owner of servers, with its processes and folders.
struct Owner {
    process: Child,
    command: u32,
    supervisors: Vec<u32>,
    servers: Vec<u32>,
    folders: Vec<String>,
}

impl Owner {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.args(["exec", "--", "sh", "-c", "echo $$; exec sleep 600"]);
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let supervising = processes_with(SUPERVISOR);
        let is_supervisor = |pid: &u32| supervising.contains(pid);
        let supervisors: Vec<u32> =
            children_of(process.id().unwrap()).into_iter().filter(|pid| is_supervisor(pid)).collect();
        let beside = supervisors.iter().flat_map(|supervisor| children_of(*supervisor));
        let servers = beside.filter(|pid| !is_supervisor(pid)).collect();
        let folders = supervisors.iter().map(|supervisor| folder_of(*supervisor)).collect();
        Self { process, command: line.trim().parse().unwrap(), supervisors, servers, folders }
    }

    async fn kill_and_see_all_gone(mut self) {
        assert_eq!((self.supervisors.len(), self.servers.len()), (2, 2), "{:?}", self.folders);
        let mut all: Vec<u32> = self.supervisors.iter().chain(&self.servers).copied().chain([self.command]).collect();
        assert!(all.iter().all(|pid| is_alive(*pid)), "{all:?}");
        let children: Vec<u32> = all.iter().flat_map(|pid| children_of(*pid)).collect();
        all.extend(children);
        self.process.kill().await.unwrap();
        eventually("all are gone", async || {
            let is_there = |folder: &String| Path::new(folder).exists() || !processes_with(folder).is_empty();
            !all.iter().any(|pid| is_alive(*pid)) && !self.folders.iter().any(is_there)
        })
        .await;
    }
}

/// The private folder: the first argument of the supervisor that is one.
fn folder_of(supervisor: u32) -> String {
    let line = std::fs::read_to_string(format!("/proc/{supervisor}/cmdline")).unwrap();
    let word = line.split('\0').find(|word| word.starts_with('/') && word.contains("/stockade-testbed-"));
    word.unwrap().to_owned()
}

#[tokio::test]
async fn nothing_outlives_an_owner_that_is_killed() {
    Owner::start().await.kill_and_see_all_gone().await;
}

#[tokio::test]
async fn stopped_servers_do_not_outlive_an_owner_that_is_killed_either() {
    let owner = Owner::start().await;
    for server in &owner.servers {
        kill_process(pid_of(*server), Signal::STOP).unwrap();
    }
    owner.kill_and_see_all_gone().await;
}

#[tokio::test]
async fn a_dropped_group_or_cluster_leaves_no_process() {
    let (group, cluster) = tokio::try_join!(SentinelGroup::start(), RedisCluster::start()).unwrap();
    let servers = group.servers().iter().chain(group.sentinels()).chain(cluster.nodes());
    let pids: Vec<u32> = servers.map(RedisServer::pid).collect();
    assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 12);
    cluster.nodes()[1].pause().unwrap();
    drop((group, cluster));
    eventually("nothing is left", async || !pids.iter().any(|pid| is_alive(*pid))).await;
}
