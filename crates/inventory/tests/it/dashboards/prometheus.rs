//! Every panel and every rule, asked of a real Prometheus that scrapes a real instance.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, Url};
use serde_json::Value;
use stockade_testbed::Watchdog;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    live::{is_of_a_sale, is_operators, one, request_for, requests_of_the_load_test},
    project,
    rules::{has, values},
    targets,
};
use crate::stage::{Instance, Stage};

/// The limit for each wait. Only a failing test reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// A private Prometheus that scrapes one instance every second. It ends when it is dropped.
struct Prometheus {
    process: Child,
    url: String,
    http: Client,
    _folder: TempDir,
    _watchdog: Watchdog,
}

impl Prometheus {
    async fn start(instance: &Instance) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [\"{}/*.yml\"]\n\
             scrape_configs:\n  - job_name: inventory\n    static_configs:\n      - targets: [\"{}\"]\n",
            project("dashboards/rules").canonicalize().unwrap().display(),
            instance.ops.trim_start_matches("http://").trim_end_matches('/')
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let (http, begun) = (Client::new(), Instant::now());
        for _ in 0..5 {
            // Prometheus does not accept port 0, so take a port that was free a moment ago. If another program has
            // taken the port since, Prometheus ends.
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut command = Command::new("prometheus");
            command.arg(format!("--config.file={}", file.display())).arg(format!("--web.listen-address={address}"));
            command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            let watchdog = Watchdog::over(process.id()).unwrap();
            while process.try_wait().unwrap().is_none() {
                let ready = http.get(format!("http://{address}/-/ready")).timeout(Duration::from_secs(1));
                let answer = ready.send().await;
                if answer.is_ok_and(|answer| answer.status().is_success()) {
                    let url = format!("http://{address}/api/v1/");
                    return Self { process, url, http, _folder: folder, _watchdog: watchdog };
                }
                assert!(begun.elapsed() < LIMIT, "Prometheus is not ready");
                sleep(Duration::from_millis(50)).await;
            }
        }
        panic!("Prometheus ended five times before it was ready");
    }

    /// How many results a query has now; `None` if Prometheus does not answer.
    async fn results(&self, query: &str) -> Option<usize> {
        let url = Url::parse_with_params(&format!("{}query", self.url), [("query", query)]).unwrap();
        let answer: Value = self.http.get(url).send().await.ok()?.json().await.ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"]["result"].as_array()?.len())
    }

    /// The names of alerts that fire or are about to.
    async fn alerts(&self) -> Vec<String> {
        let answer = self.http.get(format!("{}alerts", self.url)).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        let alerts = answer["data"]["alerts"].as_array().unwrap();
        alerts.iter().map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The query as Grafana would send it.
fn filled_in(expr: &str) -> String {
    expr.replace("$__rate_interval", "5s").replace("$__range", "60s").replace("$instance", ".*")
}

#[tokio::test]
async fn every_panel_and_every_recording_rule_has_data_and_no_alert_fires_for_a_service_that_is_well() {
    if !has("prometheus") {
        return;
    }
    let stage = Stage::start().await;
    let instance = one(&stage).await;
    let prometheus = Prometheus::start(&instance).await;
    let (http, begun) = (Client::new(), Instant::now());
    let mut requests: Vec<_> = requests_of_the_load_test().into_iter().collect();
    requests.retain(|(_, route)| !is_operators(route) && !is_of_a_sale(route));
    requests.sort_by_key(|(method, _)| method != "PUT");

    let panels = targets().into_iter().map(|(panel, expr, _)| (panel, filled_in(&expr)));
    let recorded = values("dashboards/rules/recording.yml", "record").into_iter().map(|name| (name.clone(), name));
    let mut without: Vec<_> = panels.chain(recorded).collect();
    assert!(without.len() > 40, "{}", without.len());
    while !without.is_empty() {
        assert!(begun.elapsed() < LIMIT, "without data: {without:#?}");
        for (method, route) in &requests {
            request_for(&http, &instance, method, route).send().await.unwrap();
        }
        let mut still = Vec::new();
        for (panel, expr) in without {
            if prometheus.results(&expr).await.is_none_or(|results| results == 0) {
                still.push((panel, expr));
            }
        }
        without = still;
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(prometheus.alerts().await, Vec::<String>::new());
}
