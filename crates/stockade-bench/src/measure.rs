use std::fmt::Write;

use tokio::{task::JoinSet, time::Instant};

use crate::contender::{Contender, Failure};

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How many ask at once: one shows the latency, many the throughput.
    pub(crate) tasks: u32,
    pub(crate) rounds: usize,
    /// Of all tasks together, in each round.
    pub(crate) operations: u32,
}

/// Runs the contenders in turns and renders a table; the first is what the others are compared with.
pub(crate) async fn table(title: &str, plan: Plan, contenders: &[Contender]) -> Result<String, Failure> {
    let mut micros = vec![Vec::with_capacity(plan.rounds); contenders.len()];
    for contender in contenders {
        round(contender, plan).await?;
    }
    for _ in 0..plan.rounds {
        for (contender, times) in contenders.iter().zip(&mut micros) {
            times.push(round(contender, plan).await?);
        }
    }
    let tasks = plan.tasks;
    let mut text = format!("{title}, {tasks} at once\n{:44}{:>12}{:>14}{:>8}\n", "", "µs each", "per second", "ratio");
    for (contender, times) in contenders.iter().zip(&micros) {
        let each = median(times.clone());
        let ratio = median(times.iter().zip(&micros[0]).map(|(time, floor)| time / floor).collect());
        writeln!(text, "{:44}{each:>12.2}{:>14.0}{ratio:>8.2}", contender.name, 1e6 / each)?;
    }
    Ok(text)
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

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
