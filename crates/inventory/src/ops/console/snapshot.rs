use std::collections::BTreeMap;

use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;

use super::{
    families::{self, Family},
    series::Series,
};
use crate::{
    app::App,
    http::{
        Problem,
        health::{self, Ready},
    },
    metrics,
    millis::now_ms,
};

/// The instance now. Counters go up from the start of the process, and listeners make rates of them.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    /// When it was taken: milliseconds since 1970.
    at_ms: u64,
    version: &'static str,
    /// The random id of this instance.
    instance: String,
    /// Whether there are admin routes.
    admin: bool,
    /// Whether the attack lab is on.
    lab: bool,
    /// The answer of `/readyz`; `None` when the instance is not ready.
    ready: Option<Ready>,
    /// Why it is not ready.
    problem: Option<NotReady>,
    metrics: Metrics,
}

/// The last part of the problem type, and its title.
#[derive(Debug, Serialize)]
struct NotReady {
    r#type: &'static str,
    title: &'static str,
}

/// Values by the name of the family, then by the values of its labels with a `/` between.
type Metrics = BTreeMap<&'static str, BTreeMap<String, f64>>;

impl Snapshot {
    /// Takes a snapshot from the page that `/metrics` shows, so the two can't differ.
    pub(super) async fn take(app: &App, recorded: &PrometheusHandle, instance: &str, admin: bool) -> Self {
        let (ready, problem) = match health::state(app).await {
            Ok(ready) => (Some(ready), None),
            Err(problem) => (None, Some(NotReady::from(&problem))),
        };
        Self {
            at_ms: now_ms(),
            version: env!("CARGO_PKG_VERSION"),
            instance: instance.to_owned(),
            admin,
            lab: app.attacks.is_some(),
            ready,
            problem,
            metrics: summed(&metrics::page(&app.pg, recorded)),
        }
    }
}

impl From<&Problem> for NotReady {
    fn from(problem: &Problem) -> Self {
        let problem = problem.problem_type();
        Self { r#type: problem.name(), title: problem.title() }
    }
}

/// The families of a page of metrics that the console shows.
fn summed(page: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((family, series)) = families::find(line).and_then(|family| Some((family, Series::parse(line)?)))
        else {
            continue;
        };
        if families::is_of_a_probe(&series) {
            continue;
        }
        *metrics.entry(family.name).or_default().entry(key(family, &series)).or_default() += series.value;
    }
    metrics
}

fn key(family: &Family, series: &Series<'_>) -> String {
    let values = family.by.iter().map(|label| match *label {
        families::ACCESS => families::access(series),
        label => series.label(label).unwrap_or_default(),
    });
    values.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_over_the_labels_that_are_not_told_apart_and_those_of_probes_are_left_out() {
        let page = "# TYPE http_requests_total counter\n\
                    http_requests_total{method=\"GET\",route=\"/stock/{sku}\",status=\"200\"} 3\n\
                    http_requests_total{method=\"PUT\",route=\"/stock/{sku}\",status=\"200\"} 4\n\
                    http_requests_total{method=\"GET\",route=\"/stock\",status=\"503\"} 1\n\
                    http_requests_total{method=\"GET\",route=\"/readyz\",status=\"503\"} 9\n\
                    http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 9\n\
                    http_requests_total_of_another_kind 9\n\
                    http_request_duration_seconds_bucket{method=\"GET\",route=\"/stock/{sku}\",status=\"200\",le=\"0.1\"} 2\n\
                    http_request_duration_seconds_bucket{method=\"GET\",route=\"/readyz\",status=\"200\",le=\"0.1\"} 50\n\
                    http_request_duration_seconds_bucket{method=\"GET\",route=\"/openapi.json\",status=\"200\",le=\"0.1\"} 5\n\
                    http_request_duration_seconds_bucket{method=\"PUT\",route=\"/stock/{sku}\",status=\"201\",le=\"+Inf\"} 4\n\
                    stockade_outbox_lag_seconds 1.5\n";
        let metrics = serde_json::to_value(summed(page)).unwrap();
        assert_eq!(
            metrics,
            serde_json::json!({
                "http_requests_total": { "200": 7.0, "503": 1.0 },
                "http_request_duration_seconds_bucket": { "read/0.1": 2.0, "other/0.1": 5.0, "write/+Inf": 4.0 },
                "stockade_outbox_lag_seconds": { "": 1.5 },
            })
        );
    }
}
