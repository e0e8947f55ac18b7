use serde::Serialize;

use super::{scheme::Scheme, worker::Report};

/// The result of a scheme.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) scheme: Scheme,
    #[serde(skip)]
    pub(super) title: &'static str,
    /// Units that buyers were told they have.
    pub(super) sold: u64,
    /// Sales that left no trace in the stock, since another buyer wrote over them.
    pub(super) lost: i64,
    /// Units sold beyond those at the start.
    pub(super) oversold: u64,
    pub(super) per_second: f64,
    /// The median wait, in ms.
    pub(super) p50: f64,
    /// The wait that 99 of 100 stay within, in ms.
    pub(super) p99: f64,
    /// Commands that buyers sent to Redis, for each unit sold.
    pub(super) commands: f64,
    /// Statements that PostgreSQL ran, for each unit sold.
    pub(super) statements: f64,
    /// The longest wait, in medians.
    pub(super) longest: f64,
    /// How often a holder was stopped; `None` if the scheme stops none.
    pub(super) stopped: Option<u32>,
    /// Attempts that were refused or broke off.
    pub(super) refused: u64,
    pub(super) refusal: Option<String>,
}

impl Row {
    /// `left` is the stock afterwards; `asked` are commands and statements.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run, shown with three digits")]
    pub(super) fn new(scheme: Scheme, units: u64, left: i64, mut report: Report, asked: [u64; 2]) -> Self {
        report.waits.sort_unstable();
        let sold = report.waits.len() as u64;
        let ms = |share: f64| quantile(&report.waits, share) as f64 / 1e3;
        let each = |count: u64| if sold == 0 { 0.0 } else { count as f64 / sold as f64 };
        let taken = i64::try_from(units).unwrap_or(i64::MAX) - left;
        Self {
            scheme,
            title: scheme.title(),
            sold,
            lost: i64::try_from(sold).unwrap_or(i64::MAX) - taken,
            oversold: sold.saturating_sub(units),
            per_second: if report.last == 0 { 0.0 } else { sold as f64 * 1e6 / report.last as f64 },
            p50: ms(0.5),
            p99: ms(0.99),
            commands: each(asked[0]),
            statements: each(asked[1]),
            longest: if sold == 0 { 0.0 } else { ms(1.0) / ms(0.5).max(1e-3) },
            stopped: scheme.is_stopped().then_some(report.stopped),
            refused: report.refused,
            refusal: report.refusal,
        }
    }

    /// Whether units were sold, each of them once, every sale left its trace, and the scheme was played at all.
    pub(super) fn is_right(&self) -> bool {
        self.sold > 0 && self.lost == 0 && self.oversold == 0 && self.stopped != Some(0)
    }
}

/// A quantile of sorted values; 0 when there are none.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index within the list, from a share of 0 to 1"
)]
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Report, Row, Scheme};

    #[test]
    fn a_sale_that_left_no_trace_is_lost_and_one_beyond_the_stock_is_oversold() {
        let report = Report { waits: vec![1_000; 12], last: 2_000_000, ..Report::default() };
        let row = Row::new(Scheme::NoLock, 10, 3, report, [24, 36]);
        assert_eq!((row.sold, row.lost, row.oversold), (12, 5, 2));
        assert_eq!((row.commands, row.statements, row.per_second), (2.0, 3.0, 6.0));
        assert!(!row.is_right());
    }

    #[test]
    fn nothing_sold_is_no_division_by_zero() {
        let row = Row::new(Scheme::Script, 10, 10, Report::default(), [7, 7]);
        assert_eq!((row.sold, row.lost, row.per_second, row.longest), (0, 0, 0.0, 0.0));
        assert!(!row.is_right(), "a scheme that sells nothing is not right");
    }

    #[test]
    fn nothing_is_right_about_holders_that_nobody_stopped() {
        for (stopped, is_right) in [(0, false), (2, true)] {
            let report = Report { waits: vec![1_000; 10], last: 10_000, stopped, ..Report::default() };
            assert_eq!(Row::new(Scheme::Stopped, 10, 0, report, [0, 0]).is_right(), is_right);
        }
    }
}
