//! A job that only one process runs at a time, outside of any request. It is cancelled when its lock is lost.
//!
//! Run it in two terminals: with `REDIS_URL=redis://127.0.0.1:6379` the second waits for the first.

#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

use std::{borrow::Cow, time::Duration};

use stockade::{Locks, Redis, Resource};

struct Job(&'static str);

impl Resource for Job {
    const KIND: &'static str = "job";

    fn id(&self) -> Cow<'_, str> {
        self.0.into()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = match std::env::var("REDIS_URL") {
        Ok(url) => Locks::new(&Redis::connect(url).await?),
        Err(_) => Locks::memory(),
    };
    let report = locks.write(&Job("nightly")).tag("example").run(async |fence| {
        println!("running with token {}", fence.token());
        tokio::time::sleep(Duration::from_secs(3)).await;
        std::io::Result::Ok("done")
    });
    println!("{}", report.await?);
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
