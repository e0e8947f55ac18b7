use std::{process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::stage::until;

/// Only a demonstration that hangs reaches this limit.
const LIMIT: Duration = Duration::from_secs(120);

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.arg("demo").args(args).kill_on_drop(true).stdin(Stdio::null());
    command
}

/// A demonstration that serves, and the addresses of everything that it started.
struct Serving {
    child: Child,
    addresses: Vec<String>,
    /// The metrics URLs of both instances.
    metrics: Vec<String>,
}

impl Serving {
    async fn start() -> Self {
        let mut child = demo(&["--lines", "50"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut addresses, mut metrics) = (Vec::new(), Vec::new());
        let reading = async {
            loop {
                let line = stdout.next_line().await.unwrap().expect("it serves until it is told to end");
                let after_host = line.split("127.0.0.1:").skip(1);
                addresses.extend(after_host.map(|rest| {
                    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    format!("127.0.0.1:{port}")
                }));
                metrics.extend(line.split_once("   metrics ").map(|(_, url)| url.to_owned()));
                if line.starts_with("Ctrl-C") {
                    break;
                }
            }
        };
        timeout(LIMIT, reading).await.unwrap();
        addresses.sort();
        addresses.dedup();
        // Two ports of each instance, PostgreSQL, Redis.
        assert_eq!(addresses.len(), 6, "{addresses:?}");
        for address in &addresses {
            TcpStream::connect(address).await.unwrap();
        }
        Self { child, addresses, metrics }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until every instance has applied one more adjustment.
    async fn until_somebody_buys(&self) {
        for url in &self.metrics {
            let applied = async || -> f64 {
                let text = reqwest::get(url).await.unwrap().text().await.unwrap();
                let counts = text.lines().filter(|line| line.starts_with("inventory_movements_total{"));
                counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
            };
            let before = applied().await;
            until("an adjustment", async || applied().await > before).await;
        }
    }

    async fn until_nothing_listens(&self) {
        let gone = async {
            for address in &self.addresses {
                while TcpStream::connect(address).await.is_ok() {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        };
        timeout(LIMIT, gone).await.unwrap();
    }
}

#[tokio::test]
async fn the_demonstration_conserves_stock_and_says_so() {
    let output = timeout(LIMIT, demo(&["--exit", "--lines", "2000"]).output()).await.unwrap().unwrap();
    let (report, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{report}\n{notes}", output.status);
    for expected in ["conservation: ok", "exclusion: ok", "answers: ok", "hit ratio", "hand-offs", "p99"] {
        assert!(report.contains(expected), "{expected} is missing in\n{report}");
    }
    let number_after = |label: &str| -> u64 {
        let rest = report.split(label).nth(1).unwrap_or_else(|| panic!("{label} is missing in\n{report}"));
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    assert_eq!(number_after("applied ") + number_after("refused "), 2_000, "{report}");
}

#[tokio::test]
async fn a_demonstration_has_visitors_until_it_is_asked_to_end_and_ends_everything_in_order() {
    let mut serving = Serving::start().await;
    serving.until_somebody_buys().await;
    serving.signal(Signal::INT);
    let status = timeout(LIMIT, serving.child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    serving.until_nothing_listens().await;
}

#[tokio::test]
async fn a_demonstration_that_is_killed_leaves_nothing_running() {
    let serving = Serving::start().await;
    serving.signal(Signal::KILL);
    serving.until_nothing_listens().await;
}

#[tokio::test]
async fn a_file_without_order_lines_is_refused_before_anything_starts() {
    let mut child = demo(&["--exit", "--csv", "/nowhere.csv"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).await.unwrap();
    assert!(!child.wait().await.unwrap().success());
    assert!(text.contains("/nowhere.csv"), "{text}");
}

#[tokio::test]
async fn a_file_of_which_no_line_moves_stock_is_refused_before_anything_starts() {
    let output = timeout(LIMIT, demo(&["--exit", "--lines", "0"]).output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("name another file"), "{text}");
    assert!(!text.contains("starting"), "{text}");
}

#[tokio::test]
async fn instances_are_found_ready_past_a_proxy_of_the_environment() {
    let mut command = demo(&["--exit", "--lines", "1"]);
    let mut child = command.env("HTTP_PROXY", "http://127.0.0.1:9").stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = notes.next_line().await.unwrap() {
            assert!(!line.contains("was not ready"), "{line}");
            if line.contains("ready after") {
                return true;
            }
        }
        false
    };
    assert!(timeout(LIMIT, ready).await.unwrap(), "it ended");
}

#[tokio::test]
async fn a_switch_is_set_by_the_usual_words_in_the_environment() {
    for word in ["1", "true", "yes", "0", "no"] {
        let mut command = demo(&["--csv", "/nowhere.csv"]);
        let output = command.env("DEMO_EXIT", word).env("DEMO_KEEP", word).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("/nowhere.csv") && !text.contains("logs of the instances"), "{word}: {text}");
    }
}
