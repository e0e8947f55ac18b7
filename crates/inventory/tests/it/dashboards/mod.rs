//! These tests check that dashboards, Prometheus, the load test, compose and the example settings name only metrics,
//! labels, routes and variables that the service has.

mod annotations;
mod compose;
mod contract;
mod live;
mod panels;
mod prometheus;
mod promql;
mod rules;

use std::{collections::BTreeSet, fs, path::PathBuf};

use clap::CommandFactory;
use inventory::cli::Cli;
use serde_json::Value;

use self::promql::Query;

fn project(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All dashboards of Grafana.
fn dashboards() -> Vec<Value> {
    let files = fs::read_dir(project("dashboards/grafana")).unwrap().map(|file| file.unwrap().path());
    files.map(|file| serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()).collect()
}

/// Every target of every panel: the panel's title, the query and the legend.
fn targets() -> Vec<(String, String, String)> {
    let mut targets = Vec::new();
    for dashboard in dashboards() {
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let field = |name: &str| target[name].as_str().unwrap().to_owned();
                targets.push((panel["title"].as_str().unwrap().to_owned(), field("expr"), field("legendFormat")));
            }
        }
    }
    targets
}

/// Every query of an annotation.
fn annotations() -> Vec<String> {
    let list = |dashboard: &Value| dashboard["annotations"]["list"].as_array().unwrap().clone();
    dashboards().iter().flat_map(list).map(|note| note["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_metric_of_the_code_is_in_the_contract_and_no_other() {
    let code: BTreeSet<_> = stockade::metrics::NAMES.iter().chain(inventory::metrics::NAMES).copied().collect();
    let contract: BTreeSet<_> = contract::METRICS.iter().map(|(name, _)| *name).collect();
    assert_eq!(code, contract);
}

#[test]
fn every_query_and_rule_names_metrics_labels_and_values_that_exist() {
    let targets = targets();
    assert!(targets.len() > 30, "{}", targets.len());
    let others = [("an annotation", annotations()), ("a rule", rules::exprs())];
    let others =
        others.into_iter().flat_map(|(of, exprs)| exprs.into_iter().map(|expr| (of.to_owned(), expr, String::new())));
    for (panel, expr, legend) in targets.into_iter().chain(others) {
        let query = Query::parse(&expr);
        assert!(!query.selectors.is_empty(), "{panel}: no metric in {expr}");
        // `up` is a metric of Prometheus.
        for selector in query.selectors.iter().filter(|selector| selector.metric != "up") {
            let labels = contract::labels_of(&selector.metric)
                .unwrap_or_else(|| panic!("{panel}: the service has no {}", selector.metric));
            let used = selector.matchers.iter().map(|(label, _)| label).chain(&query.grouping);
            for label in used {
                assert!(labels.contains(label.as_str()), "{panel}: {} has no label {label}", selector.metric);
            }
            for (label, pattern) in &selector.matchers {
                let Some(known) = contract::values_of(label) else { continue };
                for value in pattern.split('|') {
                    assert!(known.contains(&value), "{panel}: {label} is never {value}");
                }
            }
        }
        for label in placeholders(&legend) {
            let bare = query.grouping.is_empty() && label == "instance";
            assert!(bare || query.grouping.contains(label), "{panel}: the legend's {label} is not in the result");
        }
    }
}

#[test]
fn every_metric_of_the_library_is_on_the_dashboard() {
    let shown: BTreeSet<String> = targets()
        .iter()
        .flat_map(|(_, expr, _)| Query::parse(expr).selectors)
        .map(|selector| contract::base_name(&selector.metric).to_owned())
        .collect();
    let missing: Vec<_> = stockade::metrics::NAMES.iter().filter(|name| !shown.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    let mut uids = BTreeSet::new();
    for dashboard in dashboards() {
        assert!(uids.insert(dashboard["uid"].to_string()), "{}", dashboard["uid"]);
        let mut ids = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
            let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{panel}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(cells.insert((x, y)), "{} overlaps another panel", panel["title"]);
                }
            }
        }
    }
}

#[test]
fn every_panel_has_a_unit_and_the_home_dashboard_exists() {
    for panel in dashboards().iter().flat_map(|dashboard| dashboard["panels"].as_array().unwrap()) {
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        assert!(panel["type"] == "row" || unit.is_string(), "{}: no unit", panel["title"]);
    }
    let compose = text("docker-compose.yml");
    let home = compose.split("HOME_DASHBOARD_PATH: /var/lib/grafana/dashboards/").nth(1).unwrap();
    assert!(project("dashboards/grafana").join(home.lines().next().unwrap()).exists(), "{home}");
    assert!(compose.contains("./dashboards/grafana:/var/lib/grafana/dashboards:ro"));
}

#[test]
fn prometheus_scrapes_the_operators_port_of_every_instance_in_compose() {
    let compose = text("docker-compose.yml");
    let prometheus = text("dashboards/prometheus.yml");
    let targets = prometheus.lines().find(|line| line.contains("targets: [\"inventory")).unwrap();
    let targets: Vec<_> = targets.split('"').skip(1).step_by(2).collect();
    let port = default_of("OPS_ADDR").rsplit_once(':').unwrap().1.to_owned();
    assert!(text("Dockerfile").contains(&format!("OPS_ADDR=0.0.0.0:{port}")));
    assert_eq!(targets.len(), compose.matches("\n  inventory-").count());
    for target in targets {
        let (host, scraped) = target.split_once(':').unwrap();
        assert!(compose.contains(&format!("\n  {host}:\n")), "compose has no service {host}");
        assert_eq!(scraped, port);
    }
}

#[test]
fn example_settings_are_those_of_the_service_with_their_defaults() {
    let known = variables();
    let example = text(".env.example");
    let lines = example.lines().filter_map(|line| line.trim_start_matches('#').split_once('='));
    let lines: Vec<_> = lines.filter(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')).collect();
    for (name, value) in &lines {
        assert!(known.contains(*name), "{name} is no setting of `inventory serve`");
        if example.contains(&format!("\n#{name}=")) && !value.is_empty() && !name.ends_with("REDIS_URL") {
            assert_eq!(default_of(name), *value, "{name}");
        }
    }
    let listed: BTreeSet<_> = lines.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = known.difference(&listed).filter(|name| !name.ends_with("_FILE")).collect();
    assert!(missing.is_empty(), "not in .env.example: {missing:?}");
}

#[test]
fn the_page_of_the_service_names_every_variable_with_its_default() {
    let page = text("crates/inventory/README.md");
    let row_of = |name: &str| page.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
    for name in variables().into_iter().filter(|name| !name.ends_with("_FILE")) {
        let row = row_of(&name).unwrap_or_else(|| panic!("no row for {name}"));
        let serve = serve();
        let arg = serve.get_arguments().find(|arg| arg.get_env().is_some_and(|env| env == &*name)).unwrap();
        if let [default] = arg.get_default_values() {
            assert!(row.contains(&format!("`{}`", default.to_str().unwrap())), "{row}");
        }
    }
}

#[test]
fn compose_and_image_set_variables_that_the_service_has() {
    let known = variables();
    let compose = text("docker-compose.yml");
    let shared = compose.split("x-inventory:").nth(1).unwrap().split("\nservices:").next().unwrap();
    let set = shared.lines().filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name.to_owned());
    let image = text("Dockerfile");
    let image =
        image.lines().filter(|line| line.starts_with("ENV LISTEN_ADDR")).flat_map(str::split_whitespace).skip(1);
    let set = set.chain(image.map(|pair| pair.split('=').next().unwrap().to_owned()));
    let set: Vec<_> = set.filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')).collect();
    assert!(set.len() >= 7, "{set:?}");
    for name in set {
        assert!(known.contains(&name), "{name} is no setting of `inventory serve`");
    }
}

#[test]
fn the_example_settings_name_every_variable_that_compose_reads() {
    let (compose, example) = (text("docker-compose.yml"), text(".env.example"));
    let read: BTreeSet<_> = compose.split("${").skip(1).filter_map(|rest| rest.split([':', '}']).next()).collect();
    assert!(read.len() >= 2, "{read:?}");
    for name in read.into_iter().chain(["ADMIN_TOKEN"]) {
        assert!(example.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(name)), "{name}");
    }
}

/// The environment variables of `inventory serve`.
fn variables() -> BTreeSet<String> {
    serve().get_arguments().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned())).collect()
}

fn default_of(variable: &str) -> String {
    let serve = serve();
    let arg = serve.get_arguments().find(|arg| arg.get_env().is_some_and(|env| env == variable)).unwrap();
    let value = arg.get_default_values().first().unwrap_or_else(|| panic!("{variable} has no default"));
    value.to_str().unwrap().to_owned()
}

fn serve() -> clap::Command {
    Cli::command().find_subcommand("serve").unwrap().clone()
}

/// `{{label}}` in a legend.
fn placeholders(legend: &str) -> impl Iterator<Item = &str> {
    legend.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0))
}
