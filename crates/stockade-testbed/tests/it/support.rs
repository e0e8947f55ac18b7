//! Slots of keys, and looking at processes.

use std::fs;

use stockade_testbed::RedisCluster;

/// The slot of a key.
pub(crate) async fn slot_of(cluster: &RedisCluster, key: &str) -> u16 {
    cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", key]).await.unwrap().parse().unwrap()
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == "T")
}

pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    processes().filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes whose command line contains the text.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let has_text = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_alive(*pid) && String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    };
    processes().filter(has_text).collect()
}

pub(crate) fn pid_of(pid: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(pid.cast_signed()).unwrap()
}
