use serde::Serialize;

/// Contenders that were measured in turns.
#[derive(Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// How many asked at once.
    pub(crate) tasks: u32,
    /// The first is what the others are compared with.
    pub(crate) rows: Vec<Row>,
}

/// One contender. Times are microseconds for each operation, as seen by all tasks together.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) median: f64,
    /// A quarter of the rounds were faster than the first and slower than the second.
    pub(crate) quartiles: [f64; 2],
    /// The median over the rounds of the ratio to the first contender.
    pub(crate) ratio: f64,
}

impl Row {
    /// From the times of all rounds, and those of the first contender in the same rounds.
    pub(crate) fn new(name: &'static str, times: &[f64], first: &[f64]) -> Self {
        let ratios = times.iter().zip(first).map(|(time, floor)| time / floor).collect();
        Self {
            name,
            median: quantile(times.to_vec(), 0.5),
            quartiles: [0.25, 0.75].map(|part| quantile(times.to_vec(), part)),
            ratio: quantile(ratios, 0.5),
        }
    }
}

/// The value below which `part` of the others lie.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index into a few dozen rounds"
)]
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
