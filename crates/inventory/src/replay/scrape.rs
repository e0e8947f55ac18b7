use std::ops::Sub;

use futures_util::future::try_join_all;
use reqwest::{Client, Url};

/// The instances' own counts, summed over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// Loads that the caches sent to the database.
    pub(crate) loads: f64,
    /// Locks that went from a releaser straight to a waiter.
    pub(crate) handoffs: f64,
    /// Locks that ended against the holder's will.
    pub(crate) lost: f64,
    /// Write transactions that the fence refused.
    pub(crate) fence_rejected: f64,
}

impl Counters {
    /// Reads `/metrics` of every instance.
    pub(crate) async fn scrape(http: &Client, ops: &[Url]) -> Result<Self, reqwest::Error> {
        let pages = try_join_all(ops.iter().map(|url| page(http, url))).await?;
        Ok(pages.iter().map(|page| Self::parse(page)).fold(Self::default(), |sum, one| Self {
            loads: sum.loads + one.loads,
            handoffs: sum.handoffs + one.handoffs,
            lost: sum.lost + one.lost,
            fence_rejected: sum.fence_rejected + one.fence_rejected,
        }))
    }

    fn parse(page: &str) -> Self {
        Self {
            loads: sum(page, stockade::metrics::CACHE_LOADS),
            handoffs: sum(page, &format!("{}_count", stockade::metrics::LOCK_HANDOFF)),
            lost: sum(page, stockade::metrics::LOCK_LOST),
            fence_rejected: sum(page, "inventory_fence_rejected_total"),
        }
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            loads: self.loads - before.loads,
            handoffs: self.handoffs - before.handoffs,
            lost: self.lost - before.lost,
            fence_rejected: self.fence_rejected - before.fence_rejected,
        }
    }
}

async fn page(http: &Client, ops: &Url) -> Result<String, reqwest::Error> {
    let mut url = ops.clone();
    url.set_path("/metrics");
    http.get(url).send().await?.error_for_status()?.text().await
}

/// The sum over all series of one name in the Prometheus text format; zero when there is none.
fn sum(page: &str, name: &str) -> f64 {
    page.lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']))
        // Label values may hold blanks, so the value is looked for behind the labels.
        .filter_map(|rest| rest.rsplit_once('}').map_or(rest, |(_, value)| value).split_whitespace().next())
        .filter_map(|value| value.parse::<f64>().ok())
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
        assert_eq!(counters, Counters { loads: 42.0, handoffs: 3.0, lost: 0.0, fence_rejected: 1.0 });
    }
}
