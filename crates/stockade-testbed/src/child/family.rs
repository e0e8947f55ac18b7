//! Finding and signalling a process together with its children.

use std::fs;

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};

/// Sends a signal; a process that is gone already is no error.
pub(crate) fn signal(pid: Pid, signal: Signal) -> rustix::io::Result<()> {
    match kill_process(pid, signal) {
        Err(Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Stops a process and then its children, in this order: a stopped process starts no more of them.
///
/// PostgreSQL answers from its children, which are in sessions of their own: no signal to a process group reaches them.
pub(crate) fn stop(pid: Pid) -> rustix::io::Result<Vec<Pid>> {
    signal(pid, Signal::STOP)?;
    let children = children_of(pid);
    for child in &children {
        signal(*child, Signal::STOP)?;
    }
    Ok(children)
}

/// Lets a stopped process and its children go on.
pub(crate) fn resume(pid: Pid) -> rustix::io::Result<()> {
    for child in children_of(pid) {
        signal(child, Signal::CONT)?;
    }
    signal(pid, Signal::CONT)
}

/// Kills a process and its children, and returns their ids.
pub(crate) fn kill(pid: Pid) -> rustix::io::Result<Vec<Pid>> {
    signal(pid, Signal::STOP)?;
    let mut all = children_of(pid);
    all.push(pid);
    for member in &all {
        signal(*member, Signal::KILL)?;
    }
    Ok(all)
}

/// True while the process can still do something: a dead one that nobody has waited for yet can't.
pub(crate) fn is_alive(pid: Pid) -> bool {
    match stat(pid.as_raw_nonzero().get()) {
        Some((_, state)) => state != 'Z' && state != 'X',
        None if has_proc() => false,
        None => rustix::process::test_kill_process(pid).is_ok(),
    }
}

fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get();
    let pairs: Vec<(i32, i32)> = if has_proc() { from_proc() } else { from_ps() };
    pairs.into_iter().filter(|(_, of)| *of == parent).filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
}

fn has_proc() -> bool {
    fs::metadata("/proc/self/stat").is_ok()
}

fn from_proc() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            stat(pid).map(|(parent, _)| (pid, parent))
        })
        .collect()
}

/// Parent and state. The second field is the program's name in parentheses and may itself contain some.
fn stat(pid: i32) -> Option<(i32, char)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

fn from_ps() -> Vec<(i32, i32)> {
    let Ok(output) = std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let pair = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}
