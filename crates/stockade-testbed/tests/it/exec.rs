use std::{
    fs::{Permissions, read_dir},
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
};

use rustix::process::{Signal, kill_process};
use stockade_testbed::eventually;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Command,
};

use crate::support::pid_of;

fn testbed(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.env_remove("REDIS_URL").env_remove("DATABASE_URL").arg("exec").args(args).kill_on_drop(true);
    command
}

async fn output(args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = testbed(args).output().await.unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[tokio::test]
async fn both_urls_are_exported_and_the_exit_code_is_the_commands() {
    let (code, stdout) = output(&["--", "sh", "-c", "echo $REDIS_URL $DATABASE_URL; exit 7"]).await;
    assert_eq!(code, Some(7));
    assert!(stdout.starts_with("redis://127.0.0.1:"), "{stdout}");
    assert!(stdout.contains(" postgres://stockade:"), "{stdout}");
}

#[tokio::test]
async fn a_command_that_was_killed_or_is_missing_ends_as_in_a_shell() {
    assert_eq!(output(&["--", "sh", "-c", "kill -KILL $$"]).await.0, Some(137));
    assert_eq!(output(&["--", "/no/such/program"]).await.0, Some(127));
}

#[tokio::test]
async fn a_signal_reaches_the_command_and_its_answer_counts() {
    let script = "trap 'echo asked to end; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = testbed(&["--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut text = String::new();
    stdout.read_line(&mut text).await.unwrap();
    kill_process(pid_of(process.id().unwrap()), Signal::TERM).unwrap();
    stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(process.wait().await.unwrap().code(), Some(3));
    assert_eq!(text, "ready\nasked to end\n");
}

#[tokio::test]
async fn a_signal_while_a_cluster_is_made_leaves_no_folder() {
    // PostgreSQL's user has to enter it.
    let temporary = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap();
    for _ in 0..5 {
        let mut process = testbed(&["--", "true"]).env("TMPDIR", temporary.path()).spawn().unwrap();
        let is_being_made = || {
            let mut folders = read_dir(temporary.path()).unwrap();
            folders.any(|folder| folder.unwrap().path().join("data").is_dir())
        };
        eventually("a cluster is being made", async || is_being_made()).await;
        kill_process(pid_of(process.id().unwrap()), Signal::INT).unwrap();
        assert_eq!(process.wait().await.unwrap().code(), Some(130));
        assert_eq!(read_dir(temporary.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn a_server_that_is_not_installed_is_named_with_its_remedy() {
    let mut command = testbed(&["--", "true"]);
    let Output { status, stderr, .. } = command.env("REDIS_SERVER", "/no/such/redis").output().await.unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(125));
    assert!(stderr.contains("make setup") && stderr.contains("/no/such/redis"), "{stderr}");
}
