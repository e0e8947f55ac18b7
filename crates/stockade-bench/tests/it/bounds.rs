//! Bounds on the client's cost of the paths that are taken most often. Nothing is timed: allocations and instructions
//! are counted.
//!
//! Like all tests, they run in a debug build, since a release build of the same crates takes minutes. A release build
//! runs far fewer instructions, but work that a change adds shows in both.
//!
//! A bound lies some 15 % above what was measured. A change that makes a path cheaper lowers its bound.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use stockade_testbed::RedisServer;

/// A path, and the most that one operation of it may take.
struct Bound {
    path: &'static str,
    allocations: f64,
    instructions: f64,
}

/// Measured with a Prometheus recorder that counts all metrics.
const BOUNDS: [Bound; 7] = [
    Bound { path: "write-lock", allocations: 34.0, instructions: 446_000.0 },
    Bound { path: "read-lock", allocations: 34.0, instructions: 452_000.0 },
    Bound { path: "delegated-read", allocations: 5.0, instructions: 30_500.0 },
    Bound { path: "redis-hit", allocations: 15.0, instructions: 215_000.0 },
    Bound { path: "memory-hit", allocations: 0.0, instructions: 10_000.0 },
    Bound { path: "fixed-answer", allocations: 47.0, instructions: 250_000.0 },
    Bound { path: "stock-read", allocations: 72.0, instructions: 400_000.0 },
];

const COUNT: &str = env!("CARGO_BIN_EXE_stockade-count");
/// Other work on a thread, such as a heartbeat, only adds to the count. So the smallest count of several runs is the
/// cost of a path.
const RUNS: usize = 3;

#[tokio::test]
async fn no_path_allocates_more_than_its_bound() {
    let server = RedisServer::start().await.unwrap();
    let ran = succeeded(Command::new(COUNT).arg("allocations").env("REDIS_URL", server.url()));
    let counted = lines(&ran);
    say("allocations", &counted);
    for bound in BOUNDS {
        let (path, allocations) = (bound.path, counted[bound.path]);
        assert!(allocations <= bound.allocations, "{path}: {allocations} allocations, bound {}", bound.allocations);
    }
}

#[tokio::test]
async fn no_path_runs_more_instructions_than_its_bound() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped, no instruction is counted: valgrind is missing; `make test` installs it"
        );
        return;
    }
    let server = RedisServer::start().await.unwrap();
    let within = |counted: &BTreeMap<String, f64>| BOUNDS.iter().all(|bound| counted[bound.path] <= bound.instructions);
    let mut least = instructions(&server);
    for _ in 1..RUNS {
        if within(&least) {
            break;
        }
        for (path, counted) in instructions(&server) {
            least.entry(path).and_modify(|least| *least = least.min(counted));
        }
    }
    say("instructions", &least);
    for bound in BOUNDS {
        let (path, instructions) = (bound.path, least[bound.path]);
        assert!(
            instructions <= bound.instructions,
            "{path}: {instructions} instructions, bound {}",
            bound.instructions
        );
    }
}

/// The instructions of one operation of each path. Each path runs on a thread of its own, from the second thread on.
fn instructions(server: &RedisServer) -> BTreeMap<String, f64> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("counts");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--separate-threads=yes"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).args([COUNT, "threads"]);
    let ran = succeeded(valgrind.env("REDIS_URL", server.url()));
    let said = String::from_utf8(ran.stdout).unwrap();
    let threads = said.lines().zip(2..).map(|(line, thread)| {
        let (path, times) = line.split_once('\t').unwrap();
        let total = total(&folder.path().join(format!("counts-{thread:02}")));
        (path.to_owned(), total / times.parse::<f64>().unwrap())
    });
    threads.collect()
}

/// All instructions that callgrind has counted for a thread.
fn total(file: &Path) -> f64 {
    let text = fs::read_to_string(file).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.expect("callgrind wrote no totals").trim().parse().unwrap()
}

fn succeeded(command: &mut Command) -> Output {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    ran
}

/// Names and figures, separated by a tab.
fn lines(ran: &Output) -> BTreeMap<String, f64> {
    let text = str::from_utf8(&ran.stdout).unwrap();
    let pairs = text.lines().map(|line| line.split_once('\t').unwrap());
    pairs.map(|(name, figure)| (name.to_owned(), figure.parse().unwrap())).collect()
}

/// Prints the figures whether or not the test passes, so that bounds can be lowered to them.
fn say(what: &str, counted: &BTreeMap<String, f64>) {
    let figures: Vec<_> = counted.iter().map(|(path, figure)| format!("{path} {figure:.1}")).collect();
    let _ = writeln!(std::io::stderr(), "\n{what} of one operation: {}", figures.join(", "));
}
