//! Measures Stockade beside floors: the least that Redis can be asked for to the same end.
//!
//! All contenders of a table run in one process against one private Redis, in turns, so that they share whatever the
//! machine does meanwhile. A figure is the median over the rounds; a ratio is the median of the ratios of each round to
//! the first contender's, which is steadier than either time.
//!
//! ```text
//! cargo run --release -p stockade-bench
//! ```

#![expect(clippy::print_stdout, reason = "the tables are the output")]

mod cache;
mod contender;
mod locks;
mod measure;

use std::error::Error;

use stockade_testbed::RedisServer;

/// How many tasks ask at once: one shows the latency, many the throughput of the one connection.
const TASKS: [u32; 2] = [1, 64];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = RedisServer::start().await?;
    for tasks in TASKS {
        println!("{}", measure::table("acquire and release", tasks, &locks::contenders(&server).await?).await?);
        println!("{}", measure::table("read of a cached value", tasks, &cache::contenders(&server).await?).await?);
    }
    Ok(())
}
