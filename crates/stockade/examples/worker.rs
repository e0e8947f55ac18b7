//! A job that a request starts and a worker in another process finishes, under one lock: handover. The worker takes one
//! of two permits for an upload (semaphore), and lets readers in as soon as nothing is written any more (downgrade).
//!
//! ```text
//! cargo build -p stockade --example worker
//! cargo run -p stockade-testbed -- exec -- target/debug/examples/worker
//! ```

use std::{borrow::Cow, env, error::Error, time::Duration};

use stockade::{Locks, Redis, Resource, lock::Handover};
use tokio::sync::mpsc;

struct Export(&'static str);

impl Resource for Export {
    const KIND: &'static str = "export";

    fn id(&self) -> Cow<'_, str> {
        self.0.into()
    }
}

struct Uplink;

impl Resource for Uplink {
    const KIND: &'static str = "uplink";

    fn id(&self) -> Cow<'_, str> {
        "office".into()
    }
}

const MONTH: Export = Export("2010-12");
const WAIT: Duration = Duration::from_secs(10);
/// How long a job may lie before a worker takes it: nobody renews the lease meanwhile.
const QUEUED: Duration = Duration::from_secs(60);

/// What a handler does: it answers at once, and the job keeps its lock.
#[expect(clippy::print_stdout, reason = "says what it answers")]
async fn request(locks: &Locks, jobs: &mpsc::Sender<String>) -> Result<(), Box<dyn Error>> {
    let Some(guard) = locks.write(&MONTH).lease(QUEUED).tag("request").try_acquire().await? else {
        println!("409: the export is being made");
        return Ok(());
    };
    // A secret: who has the text has the lock. Between processes, put it into the row of the job.
    jobs.send(guard.hand_over()?.to_text()).await?;
    println!("202: the export was begun");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "says what it does")]
async fn worker(locks: &Locks, job: &str) -> Result<(), Box<dyn Error>> {
    let writing = locks.adopt(Handover::from_text(job)?).await?; // with a higher token of its own
    println!("the worker has the lock");

    // Two at a time, over all workers. After an error the job was not done, and a real worker begins it again.
    let permit = locks.semaphore(&Uplink, 2).wait(WAIT).acquire().await?;
    println!("uploaded");
    drop(permit); // released in the background

    // The job is done, whatever becomes of its lock.
    let Ok(reading) = writing.downgrade().await else { return Ok(()) };
    let reader = locks.read(&MONTH).wait(WAIT).acquire().await?;
    println!("readers are let in, writers are not: {:?}", locks.write(&MONTH).try_acquire().await?.map(drop));
    drop((reader, reading));
    Ok(())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // Each has a connection of its own, as two processes have.
    let url = env::var("REDIS_URL")?;
    let service = Locks::new(&Redis::connect(url.as_str()).await?);
    let office = Locks::new(&Redis::connect(url.as_str()).await?);
    let (jobs, mut queue) = mpsc::channel(8);

    request(&service, &jobs).await?;
    request(&service, &jobs).await?;
    if let Some(job) = queue.recv().await {
        worker(&office, &job).await?;
    }
    tokio::join!(service.shutdown(WAIT), office.shutdown(WAIT));
    Ok(())
}
