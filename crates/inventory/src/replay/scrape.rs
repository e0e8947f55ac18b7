use futures_util::future::try_join_all;
use reqwest::{Client, StatusCode, Url};
use serde::Serialize;

use crate::metrics::FENCE_REJECTED;

/// Why the counts of an instance can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrapeError {
    /// No answer.
    #[error("no answer")]
    NoAnswer(#[from] reqwest::Error),
    /// An answer without counts.
    #[error("{0} from {1}")]
    Refused(StatusCode, Url),
}

/// The instances' own counts, summed over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Loads that the caches sent to the database.
    pub loads: u64,
    /// Locks that went from a releaser straight to a waiter.
    pub handoffs: u64,
    /// Locks that ended against the holder's will.
    pub locks_lost: u64,
    /// Write transactions that the fence refused.
    pub fence_rejected: u64,
}

impl Counters {
    /// Reads `/metrics` of every instance.
    pub(crate) async fn scrape(http: &Client, ops: &[Url]) -> Result<Self, ScrapeError> {
        Ok(Self::parse(&try_join_all(ops.iter().map(|url| page(http, url))).await?.concat()))
    }

    fn parse(pages: &str) -> Self {
        Self {
            loads: sum(pages, stockade::metrics::CACHE_LOADS),
            handoffs: sum(pages, &format!("{}_count", stockade::metrics::LOCK_HANDOFF)),
            locks_lost: sum(pages, stockade::metrics::LOCK_LOST),
            fence_rejected: sum(pages, FENCE_REJECTED),
        }
    }

    /// What was counted since `before`. The counts of an instance that was restarted meanwhile are lower.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            loads: self.loads.saturating_sub(before.loads),
            handoffs: self.handoffs.saturating_sub(before.handoffs),
            locks_lost: self.locks_lost.saturating_sub(before.locks_lost),
            fence_rejected: self.fence_rejected.saturating_sub(before.fence_rejected),
        }
    }
}

async fn page(http: &Client, ops: &Url) -> Result<String, ScrapeError> {
    let mut url = ops.clone();
    url.set_path("/metrics");
    let answer = http.get(url.clone()).send().await?;
    if answer.status() != StatusCode::OK {
        return Err(ScrapeError::Refused(answer.status(), url));
    }
    Ok(answer.text().await?)
}

/// The sum over all series of one name in the Prometheus text format; zero when there is none.
fn sum(pages: &str, name: &str) -> u64 {
    pages
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']))
        // Label values may hold blanks, so the value is looked for behind the labels.
        .filter_map(|rest| rest.rsplit_once('}').map_or(rest, |(_, value)| value).split_whitespace().next())
        .filter_map(|value| value.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_added_and_longer_names_left_out() {
        let page = "# HELP stockade_cache_loads_total Loader runs.\n\
                    # TYPE stockade_cache_loads_total counter\n\
                    stockade_cache_loads_total{cache=\"stock\",outcome=\"ok\"} 40\n\
                    stockade_cache_loads_total{cache=\"stock\",outcome=\"absent\"} 2\n\
                    stockade_cache_loads_total_other 7\n\
                    stockade_lock_handoff_seconds_count{lock=\"a } b\"} 3\n\
                    inventory_fence_rejected_total 1 1700000000\n";
        let counters = Counters::parse(page);
        assert_eq!(counters, Counters { loads: 42, handoffs: 3, locks_lost: 0, fence_rejected: 1 });
    }
}
