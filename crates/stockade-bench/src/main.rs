//! Measures Stockade beside other libraries, and beside floors: the least that a server can be asked for to the same end.
//!
//! All contenders of a table run in one process against one private Redis and one private PostgreSQL, in turns, so that they share whatever the
//! machine does meanwhile. A figure is the median over the rounds; a ratio is the median of the ratios of each round to
//! the first contender's, which is steadier than either time.
//!
//! ```text
//! cargo run --release -p stockade-bench
//! ```

#![expect(clippy::print_stdout, reason = "the tables are the output")]

mod cache;
mod contender;
mod extract;
mod locks;
mod measure;
mod page;
mod payload;
mod tier;
mod writes;

use std::error::Error;

use metrics_exporter_prometheus::PrometheusBuilder;
use stockade_testbed::{PostgresServer, RedisServer};

use measure::{Plan, table};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    PrometheusBuilder::new().install_recorder()?;
    let redis = RedisServer::start().await?;
    println!("{}", tokio::task::block_in_place(tier::candidates)?);
    println!("{}", tier::whole(&redis).await?);
    let postgres = PostgresServer::start().await?;
    for tasks in [1, 64] {
        let plan = Plan { tasks, rounds: 31, operations: 4096 };
        println!("{}", table("acquire and release", plan, &locks::free(&redis).await?).await?);
        println!("{}", table("read of a cached value", plan, &cache::contenders(&redis).await?).await?);
        println!("{}", table("cached value in a handler", plan, &extract::contenders()).await?);
        println!(
            "{}",
            table("change of a row", Plan { operations: 512, ..plan }, &writes::contenders(&redis, &postgres).await?)
                .await?
        );
    }
    for tasks in [1, 64] {
        let plan = Plan { tasks, rounds: 31, operations: 4096 };
        println!("{}", table("hit in Redis beside its floor", plan, &payload::floor(&redis).await?).await?);
    }
    for rows in [2, 8, 32, 512] {
        let (contenders, stored) = payload::contenders(&redis, rows).await?;
        let plan = Plan { tasks: 1, rounds: 15, operations: 512 };
        println!("{}{stored}\n", table(&format!("hit of {rows} rows in Redis"), plan, &contenders).await?);
    }
    // Those who poll take their time.
    let crowd = Plan { tasks: 16, rounds: 7, operations: 256 };
    println!("{}", table("sections of one resource", crowd, &locks::contended(&redis).await?).await?);
    Ok(())
}
