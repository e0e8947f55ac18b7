//! The Compose file: docker compose accepts it with each profile, and every profile is documented.

use std::{
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
};

use super::{project, text};

#[test]
fn docker_compose_accepts_the_file_with_each_profile_and_with_all() {
    let compose = || {
        let mut command = Command::new("docker");
        command.args(["compose", "--file", "docker-compose.yml"]).current_dir(project("")).stdin(Stdio::null());
        command
    };
    if !compose().arg("version").output().is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: docker compose is missing");
        return;
    }
    for profile in profiles().iter().map(String::as_str).chain(["", "*"]) {
        let output = compose().args(["--profile", profile, "config", "--quiet"]).output().unwrap();
        assert!(output.status.success(), "{profile}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_profile_is_documented_and_its_instance_is_scraped() {
    assert_eq!(profiles(), BTreeSet::from(["cluster", "load", "redlock", "sentinel"].map(str::to_owned)));
    let (page, compose, prometheus) =
        (text("crates/inventory/README.md"), text("docker-compose.yml"), text("dashboards/prometheus.yml"));
    for profile in profiles() {
        assert!(page.contains(&format!("\n| `{profile}` |")), "{profile} has no row");
        let instance = format!("{profile}-inventory");
        assert_eq!(compose.contains(&format!("\n  {instance}:\n")), profile != "load", "{instance}");
        assert_eq!(prometheus.contains(&instance), profile != "load", "{instance}");
    }
}

/// A default here would hide that of the script: `soak` takes hours, the others a minute.
#[test]
fn the_load_is_given_each_variable_of_its_page_and_no_default() {
    let (page, compose, example) = (text("loadtest/README.md"), text("docker-compose.yml"), text(".env.example"));
    let load = compose.split("\n  load:\n").nth(1).unwrap().split("\nnetworks:").next().unwrap();
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        if ["TARGETS", "OPS"].contains(&name) {
            assert!(load.contains(&format!("\n      {name}: http://")), "{name}");
        } else {
            assert!(load.contains(&format!("\n      {name}:\n")), "{name} is not passed on as it is");
            assert!(example.contains(&format!("\n#{name}=")) || example.contains(&format!("\n# {name}=")), "{name}");
        }
    }
}

/// A first process ignores SIGTERM unless it handles it, so `down` would wait ten seconds and then kill it.
#[test]
fn the_replay_ends_when_it_is_told_to() {
    let compose = text("docker-compose.yml");
    let replay = compose.split("\n  replay:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(replay.contains("\n    init: true\n"), "{replay}");
}

/// Two services on one port can't run together, and no service may be reachable from other machines.
#[test]
fn every_port_is_published_once_and_on_this_machine_only() {
    let compose = text("docker-compose.yml");
    let ports: Vec<_> =
        compose.lines().filter_map(|line| line.trim().strip_prefix("- \"")?.strip_suffix('"')).collect();
    let distinct: BTreeSet<_> = ports.iter().map(|port| port.rsplit_once(':').unwrap().0).collect();
    assert!(ports.len() >= 12, "{ports:?}");
    assert_eq!(distinct.len(), ports.len(), "{ports:?}");
    assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{ports:?}");
}

fn profiles() -> BTreeSet<String> {
    let compose = text("docker-compose.yml");
    let named = compose.lines().filter_map(|line| line.trim().strip_prefix("profiles: [")?.strip_suffix(']'));
    named.map(str::to_owned).collect()
}
