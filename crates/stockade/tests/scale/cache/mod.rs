//! The cache of four processes on one Redis and one Postgres.
//!
//! Each test takes a few seconds by default. `STOCKADE_LONG_RUNS=1` makes them long. `STOCKADE_SEED` repeats the random
//! choices of a run, but not the order in which its processes are scheduled.

mod actor;
mod delegated;
mod epochs;
mod histories;
mod history;
mod item;
mod outage;
mod record;
mod site;
mod visitor;
mod worker;

use self::site::{LONG, ROLE, SHORT, STATEMENT, Seat};

/// How many processes there are.
const PROCESSES: usize = 4;

/// The amount for a short run, or for a long one.
fn amount<T>(short: T, long: T) -> T {
    if std::env::var_os("STOCKADE_LONG_RUNS").is_some() { long } else { short }
}

/// The seed of random choices: a new one for each run, or that of a run to be repeated.
fn seed() -> u64 {
    std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap())
}

/// Not a test by itself: the processes of the other tests run this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("history", rest) => actor::act(rest, Seat::taken(SHORT, STATEMENT).await).await,
        ("visits", rest) => visitor::visit(rest, Seat::taken(SHORT, STATEMENT).await).await,
        ("epochs", rest) => epochs::call(rest, Seat::taken(LONG, STATEMENT).await).await,
        ("outage", _) => outage::call(Seat::taken(SHORT, outage::STATEMENT).await).await,
        unknown => panic!("{unknown:?}"),
    }
}
