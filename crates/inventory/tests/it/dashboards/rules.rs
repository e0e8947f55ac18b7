//! Alerts and recording rules: promtool runs their own tests, and each alert has a section in the runbook.

use std::{
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
};

use super::{project, text};

/// Whether a program of the Prometheus package is installed. If not, prints that.
pub(super) fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        let _ = writeln!(std::io::stderr(), "skipped: {program} is missing; `make test` installs it");
    }
    there
}

pub(super) fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(project("dashboards")).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "promtool {args:?}\n{out}\n{err}");
}

/// The values of a key, over all rules of a file.
pub(super) fn values(file: &str, key: &str) -> Vec<String> {
    let prefix = format!("{key}: ");
    let lines = text(file);
    let values = lines.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(&prefix));
    values.map(|value| value.trim_matches('"').to_owned()).collect()
}

/// The expressions of all rules. Recorded names have a colon, which the parser of the tests does not know, so `up`
/// stands for them.
pub(super) fn exprs() -> Vec<String> {
    let files = ["dashboards/rules/recording.yml", "dashboards/rules/alerts.yml"];
    let recorded = values(files[0], "record");
    let with_up = |expr: String| recorded.iter().fold(expr, |expr, name| expr.replace(name.as_str(), "up"));
    files.iter().flat_map(|file| values(file, "expr")).map(with_up).collect()
}

#[test]
fn prometheus_takes_its_configuration_and_the_rules_pass_their_tests() {
    if has("promtool") {
        promtool(&["check", "config", "prometheus.yml"]);
        promtool(&["test", "rules", "rules/tests/alerts.yml"]);
    }
}

#[test]
fn each_alert_fires_in_a_test_and_has_its_section_in_the_runbook() {
    let alerts = values("dashboards/rules/alerts.yml", "alert");
    assert!(alerts.len() > 10, "{alerts:?}");
    let (runbook, tests) = (text("docs/runbook.md"), text("dashboards/rules/tests/alerts.yml"));
    let links = values("dashboards/rules/alerts.yml", "runbook");
    for (alert, link) in alerts.iter().zip(&links) {
        assert!(runbook.contains(&format!("\n## {alert}\n")), "docs/runbook.md has no section {alert}");
        assert_eq!(*link, format!("docs/runbook.md#{}", alert.to_lowercase()));
        let mut cases = tests.split("alertname: ").filter_map(|case| case.strip_prefix(&format!("{alert}\n")));
        let fires = cases.any(|case| case.trim_start().starts_with("exp_alerts:\n"));
        assert!(fires, "no test in which {alert} fires");
    }
    let sections: BTreeSet<_> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, alerts.iter().map(String::as_str).collect(), "sections and alerts");
}

#[test]
fn each_alert_is_a_rule_of_the_console_with_the_same_bound() {
    let (rules, advice) = (text("crates/inventory/console/rules.js"), text("crates/inventory/console/advice.js"));
    let mut alerts = BTreeSet::new();
    for (alert, expr) in
        values("dashboards/rules/alerts.yml", "alert").into_iter().zip(values("dashboards/rules/alerts.yml", "expr"))
    {
        // No metric of a lost instance tells of the loss, so the page detects it without a rule.
        if alert == "TargetDown" {
            assert!(advice.contains("docs/runbook.md, TargetDown"));
            continue;
        }
        let rule = rules.split("alert: \"").find(|rule| rule.starts_with(&format!("{alert}\"")));
        let rule = rule.unwrap_or_else(|| panic!("rules.js has no rule {alert}"));
        // What comes after `and` is another condition.
        let first = expr.split(" and ").next().unwrap_or_default();
        let bound = match first.rsplit_once(" >= ") {
            Some((_, fewest)) => (fewest.parse::<u32>().unwrap() - 1).to_string(),
            None => first.rsplit_once(" > ").map_or("0", |(_, bound)| bound).to_owned(),
        };
        assert!(rule.contains(&format!("over: {bound},")), "{alert}: the alert is for more than {bound}");
        alerts.insert(alert);
    }
    let named = rules.split("alert: \"").skip(1).filter_map(|rule| rule.split('"').next());
    assert_eq!(named.map(str::to_owned).collect::<BTreeSet<_>>(), alerts);
}
