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
    /// A page of something else.
    #[error("{0} has no counts of the service: is it the operators' port of an instance?")]
    Foreign(Url),
    /// An instance was restarted, and its counts began at zero.
    #[error("{0} was restarted meanwhile")]
    Restarted(Url),
}

/// What one instance has counted since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scraped {
    ops: Url,
    /// When its process began, as it says.
    began: String,
    counters: Counters,
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
    pub(crate) async fn scrape(http: &Client, ops: &[Url]) -> Result<Vec<Scraped>, ScrapeError> {
        let read = async |url: &Url| {
            Scraped::parse(url, &page(http, url).await?).ok_or_else(|| ScrapeError::Foreign(url.clone()))
        };
        try_join_all(ops.iter().map(read)).await
    }

    /// What all instances counted between two scrapes of them.
    ///
    /// # Errors
    ///
    /// [`ScrapeError::Restarted`]: what an instance counted before it ended is not known.
    pub(crate) fn between(before: &[Scraped], after: &[Scraped]) -> Result<Self, ScrapeError> {
        let mut sum = Self::default();
        for (before, after) in before.iter().zip(after) {
            let counted = after.since(before).ok_or_else(|| ScrapeError::Restarted(after.ops.clone()))?;
            sum.loads += counted.loads;
            sum.handoffs += counted.handoffs;
            sum.locks_lost += counted.locks_lost;
            sum.fence_rejected += counted.fence_rejected;
        }
        Ok(sum)
    }
}

impl Scraped {
    /// `None` if the page lacks what each instance counts from its beginning. Other counts may be missing: they are 0.
    fn parse(ops: &Url, page: &str) -> Option<Self> {
        let counters = Counters {
            loads: sum(page, stockade::metrics::CACHE_LOADS),
            handoffs: sum(page, &format!("{}_count", stockade::metrics::LOCK_HANDOFF)),
            locks_lost: sum(page, stockade::metrics::LOCK_LOST),
            fence_rejected: sum(page, FENCE_REJECTED),
        };
        page.lines().any(|line| line.starts_with(FENCE_REJECTED)).then_some(())?;
        let began = page.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "))?;
        Some(Self { ops: ops.clone(), began: began.to_owned(), counters })
    }

    /// What the instance counted since `before`, unless its process is another.
    fn since(&self, before: &Self) -> Option<Counters> {
        let (now, then) = (&self.counters, &before.counters);
        (self.began == before.began).then_some(())?;
        Some(Counters {
            loads: now.loads.checked_sub(then.loads)?,
            handoffs: now.handoffs.checked_sub(then.handoffs)?,
            locks_lost: now.locks_lost.checked_sub(then.locks_lost)?,
            fence_rejected: now.fence_rejected.checked_sub(then.fence_rejected)?,
        })
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
                    inventory_fence_rejected_total 1 1700000000\n\
                    process_start_time_seconds 1763668800\n";
        let read = Scraped::parse(&url(1), page).unwrap();
        assert_eq!(read.counters, Counters { loads: 42, handoffs: 3, locks_lost: 0, fence_rejected: 1 });
    }

    fn url(port: u16) -> Url {
        Url::parse(&format!("http://127.0.0.1:{port}")).unwrap()
    }

    #[test]
    fn the_counts_of_a_fleet_end_with_the_restart_of_any_instance() {
        let instance = |port, began, refused| {
            let page = format!("process_start_time_seconds {began}\ninventory_fence_rejected_total {refused}\n");
            Scraped::parse(&url(port), &page).unwrap()
        };
        let before = [instance(1, 100, 5), instance(2, 100, 1)];
        let counted = Counters::between(&before, &[instance(1, 100, 5), instance(2, 100, 3)]);
        assert_eq!(counted.unwrap(), Counters { fence_rejected: 2, ..Counters::default() });
        // Another instance counted enough to hide the loss, or the restarted one did itself.
        for after in [[instance(1, 100, 9), instance(2, 200, 0)], [instance(1, 100, 5), instance(2, 200, 4)]] {
            let refused = Counters::between(&before, &after).unwrap_err().to_string();
            assert!(refused.contains("127.0.0.1:2/ was restarted"), "{refused}");
        }
    }

    #[test]
    fn a_page_of_another_program_counts_nothing() {
        for page in ["", "process_start_time_seconds 1763668800\n", "inventory_fence_rejected_total 1\n"] {
            assert_eq!(Scraped::parse(&url(1), page), None, "{page}");
        }
    }
}
