//! What a panel puts side by side can be compared.

use serde_json::Value;

use super::{dashboards, promql::Query};

/// A panel of a dashboard.
struct Panel {
    title: String,
    unit: String,
    exprs: Vec<String>,
}

fn panels() -> Vec<Panel> {
    let mut panels = Vec::new();
    for dashboard in dashboards() {
        for panel in dashboard["panels"].as_array().unwrap() {
            let Some(targets) = panel["targets"].as_array() else { continue };
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            panels.push(Panel {
                title: text(&panel["title"]),
                unit: text(&panel["fieldConfig"]["defaults"]["unit"]),
                exprs: targets.iter().map(|target| text(&target["expr"])).collect(),
            });
        }
    }
    assert!(panels.len() > 30, "{}", panels.len());
    panels
}

#[test]
fn a_panel_in_seconds_shows_times_only_and_a_rate_is_shown_per_second() {
    for Panel { title, unit, exprs } in panels() {
        for expr in exprs {
            let metrics: Vec<_> = Query::parse(&expr).selectors.into_iter().map(|selector| selector.metric).collect();
            let times = metrics.iter().filter(|metric| metric.contains("_seconds")).count();
            if unit == "s" {
                assert_eq!(times, metrics.len(), "{title} shows no time: {expr}");
            }
            // Processor time per second is a number of processors.
            if expr.contains("(rate(") && times == 0 {
                assert!(["ops", "reqps", "percentunit"].contains(&unit.as_str()), "{title} is per second: {unit}");
            }
        }
    }
}

#[test]
fn a_panel_shows_each_instance_or_all_together_and_not_both() {
    for Panel { title, exprs, .. } in panels() {
        let each = exprs.iter().filter(|expr| Query::parse(expr).grouping.contains("instance")).count();
        assert!(each == 0 || each == exprs.len(), "{title}: {exprs:#?}");
    }
}

/// A quantile of nothing is NaN, which the legend of Grafana names.
#[test]
fn a_quantile_of_each_route_or_command_leaves_out_those_without_traffic() {
    let exprs = panels().into_iter().flat_map(|panel| panel.exprs);
    let quantiles = exprs.filter(|expr| expr.starts_with("histogram_quantile("));
    let many: Vec<_> = quantiles
        .filter(|expr| ["op", "route"].iter().any(|label| Query::parse(expr).grouping.contains(*label)))
        .collect();
    assert!(many.len() >= 4, "{many:?}");
    for expr in many {
        assert!(expr.ends_with(" >= 0"), "{expr}");
    }
}
