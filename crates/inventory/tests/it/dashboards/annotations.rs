//! What is marked on every panel.

use serde_json::{Value, json};

use super::{annotations, rules};

/// How a breaker changes its state, every five seconds, with a `1` for the state that it is in.
fn series(state: &str, states: &[&str]) -> Value {
    let values: Vec<_> = states.iter().map(|it| if *it == state { "1" } else { "0" }).collect();
    json!({
        "series": format!("stockade_breaker_state{{instance=\"a\", breaker=\"redis_lock\", state=\"{state}\"}}"),
        "values": values.join(" "),
    })
}

#[test]
fn a_breaker_that_opens_and_closes_again_and_again_is_one_region() {
    if !rules::has("promtool") {
        return;
    }
    let mut states = ["open", "half_open", "closed"].repeat(6);
    states.extend(["closed"].repeat(12));
    let input: Vec<_> = ["open", "half_open", "closed"].iter().map(|state| series(state, &states)).collect();
    let exprs: Vec<_> = annotations().into_iter().filter(|expr| expr.contains("stockade_breaker_state")).collect();
    assert!(exprs.len() >= 4, "{exprs:?}");
    let mut cases = Vec::new();
    for expr in exprs {
        let expr = expr.replace("$instance", ".*");
        // Grafana takes points that are no further apart than the step of the annotation for one region.
        for seconds in (0..=85).step_by(5) {
            let sample = json!([{ "labels": "{instance=\"a\", breaker=\"redis_lock\"}", "value": 1 }]);
            cases.push(json!({ "expr": expr, "eval_time": format!("{seconds}s"), "exp_samples": sample }));
        }
        cases.push(json!({ "expr": expr, "eval_time": "125s", "exp_samples": [] }));
    }
    let tests = json!([{ "interval": "5s", "input_series": input, "promql_expr_test": cases }]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("annotations.yml");
    // JSON is YAML.
    std::fs::write(&file, json!({ "rule_files": [], "evaluation_interval": "5s", "tests": tests }).to_string())
        .unwrap();
    rules::promtool(&["test", "rules", file.to_str().unwrap()]);
}
