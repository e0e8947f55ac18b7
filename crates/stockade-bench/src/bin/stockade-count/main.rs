//! Counts the cost of Stockade in a client, in a process that does nothing else, on one thread: so that counts repeat.
//!
//! `make bench` makes tables of it, and the test `it::bounds` holds it to bounds. `REDIS_URL` names the server.
//!
//! ```text
//! stockade-count allocations   # of one operation of each path
//! stockade-count memory        # of what is held, here and at the server
//! stockade-count threads       # each path on a thread of its own, for a tool that counts instructions by thread
//! ```

#![expect(clippy::print_stdout, reason = "the counts are the output")]

mod memory;
mod paths;
mod service;

use std::{env, error::Error, sync::mpsc, thread};

use allocation_counter::AllocationInfo;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::runtime::{Builder, Runtime};

use paths::{Path, Paths};

type Failure = Box<dyn Error + Send + Sync>;

/// Operations before the first count: they register metrics, grow buffers, and put a value into every cache.
const WARM: u32 = 50;
const COUNTED: u32 = 1_000;

fn main() -> Result<(), Failure> {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    PrometheusBuilder::new().install_recorder()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let url = env::var("REDIS_URL")?;
    match words[..] {
        ["allocations"] => allocations(&runtime, &url),
        ["memory"] => memory::print(&runtime, &url),
        ["threads"] => threads(&runtime, &url),
        _ => Err("expected `allocations`, `memory` or `threads`".into()),
    }
}

/// One line for each path: its name, a tab, and how many allocations one operation makes.
fn allocations(runtime: &Runtime, url: &str) -> Result<(), Failure> {
    let paths = runtime.block_on(Paths::open(url))?;
    for path in Path::ALL {
        runtime.block_on(paths.run(path, WARM))?;
        let counted = counted(|| runtime.block_on(paths.run(path, COUNTED)))?;
        println!("{path}\t{:.2}", to_f64(counted.count_total) / f64::from(COUNTED));
    }
    Ok(())
}

/// Runs each path on a thread of its own, in their order, while all others stand still. So a thread does its path, and
/// neither the start of the program nor the connecting. No thread ends before the last: its number would be given to
/// the next. One line for each path: its name, a tab, and how often it ran.
fn threads(runtime: &Runtime, url: &str) -> Result<(), Failure> {
    let paths = runtime.block_on(Paths::open(url))?;
    thread::scope(|scope| {
        let mut alive = Vec::new();
        for path in Path::ALL {
            runtime.block_on(paths.run(path, WARM))?;
            let (said, outcome) = mpsc::sync_channel(1);
            let (hold, held) = mpsc::sync_channel::<()>(1);
            let paths = &paths;
            scope.spawn(move || {
                // The starter of the thread listens until it gets this.
                let _ = said.send(runtime.block_on(paths.run(path, path.times())));
                // Ends when the other side of the channel is dropped.
                let _ = held.recv();
            });
            alive.push(hold);
            outcome.recv()??;
            println!("{path}\t{}", path.times());
        }
        Ok(())
    })
}

/// The allocations of `work` on this thread.
fn counted(work: impl FnOnce() -> Result<(), Failure>) -> Result<AllocationInfo, Failure> {
    let mut done = Ok(());
    let counted = allocation_counter::measure(|| done = work());
    done.map(|()| counted)
}

#[expect(clippy::cast_precision_loss, reason = "some millions")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
