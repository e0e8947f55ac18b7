//! The metrics and answers of a running instance, compared with the contract and the load test.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use super::{contract, project, text};
use crate::{
    stage::{ADMIN_TOKEN, Instance, Stage},
    support::fleet,
};

/// An instance that is ready. On a busy machine Redis may be slow, and these tests only look at what is exposed.
pub(super) async fn one(stage: &Stage) -> Instance {
    fleet(stage, 1, &[("REDIS_TIMEOUT", "2s")]).await.remove(0)
}

/// Labels of every series, by the name of its metric.
async fn scrape(instance: &Instance) -> BTreeMap<String, BTreeSet<String>> {
    let page = reqwest::get(format!("{}/metrics", instance.ops)).await.unwrap().text().await.unwrap();
    let mut found = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",").filter_map(|pair| Some(pair.split_once('=')?.0));
        let labels: BTreeSet<String> = labels.filter(|label| *label != "le").map(str::to_owned).collect();
        let before = found.insert(contract::base_name(name).to_owned(), labels.clone());
        assert!(before.is_none_or(|before| before == labels), "{name} has different labels in different series");
    }
    found
}

#[tokio::test]
async fn an_instance_exposes_the_contract_and_answers_every_request_of_the_load_test() {
    let stage = Stage::start().await;
    let instance = one(&stage).await;
    let http = Client::new();
    // The PUTs come first, since the other requests need the stock that they create.
    let (of_sale, mut requests): (BTreeSet<_>, Vec<_>) = split(requests_of_the_load_test());
    requests.sort_by_key(|(method, _)| method != "PUT");
    assert!(requests.len() >= 6, "{requests:?}");
    let other = request_for(&http, &instance, "PUT", "/stock/71053").send().await.unwrap();
    assert!(other.status().is_success(), "the target of transfers: {}", other.status());
    for (method, route) in &requests {
        for _ in 0..2 {
            let answer = request_for(&http, &instance, method, route).send().await.unwrap();
            assert!(answer.status().is_success(), "{method} {route}: {}", answer.status());
        }
    }
    sell_by_flash(&http, &instance, &of_sale).await;

    let exposed = scrape(&instance).await;
    for (name, labels) in &exposed {
        let (_, expected) = contract::METRICS
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("{name} is exposed and not in the contract"));
        assert_eq!(*labels, expected.iter().map(|label| (*label).to_owned()).collect(), "labels of {name}");
    }
    let missing = contract::METRICS.iter().map(|(name, _)| *name).filter(|name| !exposed.contains_key(*name));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "not exposed: {missing:?}");
}

/// The requests for flash sales, and the others.
fn split(requests: BTreeSet<(String, String)>) -> (BTreeSet<(String, String)>, Vec<(String, String)>) {
    let (of_sale, others): (BTreeSet<_>, BTreeSet<_>) =
        requests.into_iter().partition(|(_, route)| is_of_a_sale(route));
    (of_sale, others.into_iter().collect())
}

/// A sale from its beginning to its end, by exactly these requests.
async fn sell_by_flash(http: &Client, instance: &Instance, requests: &BTreeSet<(String, String)>) {
    let steps = [
        ("PUT", "/flash/{sku}", json!({ "quantity": 9, "per_customer": 9, "ends_at": "2999-01-01T00:00:00Z" })),
        ("POST", "/flash/{sku}/reservations", json!({ "customer": "ann", "quantity": 1 })),
        ("GET", "/flash/{sku}/reservations/{id}", Value::Null),
        ("GET", "/flash/{sku}", Value::Null),
        ("DELETE", "/flash/{sku}", Value::Null),
    ];
    let names = steps.iter().map(|(method, route, _)| ((*method).to_owned(), (*route).to_owned()));
    assert_eq!(*requests, names.collect());
    let mut id = String::new();
    for (method, route, body) in steps {
        let answer = request_for(http, instance, method, &route.replace("{id}", &id)).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{method} {route}: {}", answer.status());
        let said: Value = answer.json().await.unwrap();
        if method == "POST" {
            said["id"].as_str().unwrap().clone_into(&mut id);
        }
    }
}

/// A request of the load test, sent to the port that has the route.
pub(super) fn request_for(http: &Client, instance: &Instance, method: &str, route: &str) -> RequestBuilder {
    let port = if is_operators(route) { &instance.ops } else { &instance.url };
    let url = format!("{port}{}", route.replace("{sku}", "85123A"));
    let request = http.request(method.parse().unwrap(), url).bearer_auth(ADMIN_TOKEN);
    let transfer = || json!({ "from": "85123A", "to": "71053", "quantity": 1, "reference": "test" });
    match (method, route) {
        ("PUT", _) => request.json(&json!({ "quantity": 100 })),
        ("POST", "/transfers") => request.json(&transfer()),
        ("POST", _) => request.json(&json!({ "delta": -1, "reference": "test" })),
        _ => request,
    }
}

/// Whether the route is one of flash sales, whose requests depend on each other.
pub(super) fn is_of_a_sale(route: &str) -> bool {
    route.starts_with("/flash/")
}

pub(super) fn is_operators(route: &str) -> bool {
    route == "/metrics" || route.starts_with("/admin/")
}

/// Method and route of every request in the load test's code. The request's tag must name the same.
pub(super) fn requests_of_the_load_test() -> BTreeSet<(String, String)> {
    let mut requests = BTreeSet::new();
    for (file, code) in scripts("loadtest/lib") {
        for call in code.split("http.").skip(1) {
            let Some((method, rest)) = call.split_once('(') else { continue };
            // The path is the part of the URL template after the target, up to the query.
            let Some((_, path)) = rest.strip_prefix("`${").and_then(|rest| rest.split_once('}')) else { continue };
            let path = path.split(['`', '?']).next().unwrap().replace("${encodeURIComponent(sku)}", "{sku}");
            let path = path.replace("${id}", "{id}");
            let method = if method == "del" { "DELETE".to_owned() } else { method.to_uppercase() };
            let tag = format!("\"{method} {path}\"");
            assert!(code.contains(&tag), "{file}: a request without the tag {tag}");
            requests.insert((method, path));
        }
    }
    for (file, code) in scripts("loadtest") {
        for name in code.split("{name:").skip(1).map(|rest| rest.split("}\"").next().unwrap()) {
            let (method, route) = name.split_once(' ').unwrap();
            let sent = requests.contains(&(method.to_owned(), route.to_owned()));
            assert!(sent, "{file}: a threshold for {name}, which is not sent");
        }
    }
    requests
}

/// Name and code of every script in a folder of the project.
fn scripts(folder: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(project(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| format!("{folder}/{}", name.to_str().unwrap()));
    let found: Vec<_> = names.filter(|name| name.ends_with(".js")).map(|name| (name.clone(), text(&name))).collect();
    assert!(found.len() >= 5, "{found:?}");
    found
}
