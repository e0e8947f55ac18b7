use std::fmt::Write;

use tokio::{task::JoinSet, time::Instant};

use crate::contender::{Contender, Failure};

const ROUNDS: usize = 31;
/// Of all tasks together, in each round.
const OPERATIONS: u32 = 4096;

/// Runs the contenders in turns and renders a table; the first is what the others are compared with.
pub(crate) async fn table(title: &str, tasks: u32, contenders: &[Contender]) -> Result<String, Failure> {
    let mut micros = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for contender in contenders {
        round(contender, tasks).await?;
    }
    for _ in 0..ROUNDS {
        for (contender, times) in contenders.iter().zip(&mut micros) {
            times.push(round(contender, tasks).await?);
        }
    }
    let mut text = format!("{title}, {tasks} at once\n{:44}{:>12}{:>14}{:>8}\n", "", "µs each", "per second", "ratio");
    for (contender, times) in contenders.iter().zip(&micros) {
        let each = median(times.clone());
        let ratio = median(times.iter().zip(&micros[0]).map(|(time, floor)| time / floor).collect());
        writeln!(text, "{:44}{each:>12.2}{:>14.0}{ratio:>8.2}", contender.name, 1e6 / each)?;
    }
    Ok(text)
}

/// Microseconds for each operation, as seen by all tasks together.
async fn round(contender: &Contender, tasks: u32) -> Result<f64, Failure> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let contender = contender.clone();
        running.spawn(async move {
            for _ in 0..OPERATIONS / tasks {
                contender.once(task).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(OPERATIONS))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
