use std::sync::atomic::{AtomicBool, Ordering};

use tokio::{task::JoinSet, time::Instant};

use crate::{
    contender::{Contender, Failure},
    report::Table,
};

/// Whether the round under way counts. There is one at a time.
static TIMED: AtomicBool = AtomicBool::new(false);

/// Whether the round under way is timed.
pub(crate) fn is_timed() -> bool {
    TIMED.load(Ordering::Relaxed)
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How many ask at once: one shows the latency, many the throughput.
    pub(crate) tasks: u32,
    pub(crate) rounds: usize,
    /// The operations of all tasks together, in each round.
    pub(crate) operations: u32,
    /// Whether an untimed round comes before each timed one: while others have their turn, a contender may lose what it
    /// keeps in use.
    pub(crate) warm: bool,
}

/// Runs the contenders in turns, and compares the others with the first.
pub(crate) async fn table(title: &str, plan: Plan, contenders: &[Contender]) -> Result<Table, Failure> {
    let mut micros = vec![Vec::with_capacity(plan.rounds); contenders.len()];
    for contender in contenders {
        round(contender, plan).await?;
    }
    for _ in 0..plan.rounds {
        for (contender, times) in contenders.iter().zip(&mut micros) {
            if plan.warm {
                round(contender, plan).await?;
            }
            TIMED.store(true, Ordering::Relaxed);
            times.push(round(contender, plan).await?);
            TIMED.store(false, Ordering::Relaxed);
        }
    }
    let names: Vec<_> = contenders.iter().map(|contender| contender.name).collect();
    Table::new(title, plan.tasks, &names, &micros)
}

/// Microseconds for each operation, as seen by all tasks together.
async fn round(contender: &Contender, plan: Plan) -> Result<f64, Failure> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..plan.tasks {
        let contender = contender.clone();
        running.spawn(async move {
            for _ in 0..plan.operations / plan.tasks {
                contender.once(task).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(plan.operations))
}
