//! What a running instance exposes and answers, against what the contract and the load test say.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{Client, RequestBuilder};

use super::{contract, instance::Instance, text};

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
    let instance = Instance::start().await;
    let http = Client::new();
    // What the load test sets up comes first: the other requests need it.
    let mut requests: Vec<_> = requests_of_the_load_test().into_iter().collect();
    requests.sort_by_key(|(method, _)| method != "PUT");
    assert!(requests.len() >= 5, "{requests:?}");
    for (method, route) in &requests {
        let url = format!("{}{}", instance.url, route.replace("{sku}", "85123A"));
        for _ in 0..2 {
            let answer = body_for(http.request(method.parse().unwrap(), &url), method).send().await.unwrap();
            assert!(answer.status().is_success(), "{method} {route}: {}", answer.status());
        }
    }

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

pub(super) fn body_for(request: RequestBuilder, method: &str) -> RequestBuilder {
    match method {
        "PUT" => request.json(&serde_json::json!({ "quantity": 100 })),
        "POST" => request.json(&serde_json::json!({ "delta": -1, "reference": "test" })),
        _ => request,
    }
}

/// Method and route of every request in the load test's code, whose tags must say the same.
pub(super) fn requests_of_the_load_test() -> BTreeSet<(String, String)> {
    let mut requests = BTreeSet::new();
    for file in ["loadtest/lib/skus.js", "loadtest/lib/stock.js"] {
        let code = text(file);
        for call in code.split("http.").skip(1) {
            let Some((method, rest)) = call.split_once("(`${") else { continue };
            let method = method.to_uppercase();
            let path = rest.split_once('}').and_then(|(_, rest)| rest.split_once('`')).unwrap().0;
            let path = path.split('?').next().unwrap().replace("${encodeURIComponent(sku)}", "{sku}");
            let tag = format!("name: \"{method} {path}\"");
            assert!(code.contains(&tag), "{file}: a request without the tag {tag}");
            requests.insert((method, path));
        }
    }
    let thresholds = text("loadtest/browse_and_adjust.js");
    for name in thresholds.split("{name:").skip(1).map(|rest| rest.split("}\"").next().unwrap()) {
        let (method, route) = name.split_once(' ').unwrap();
        assert!(requests.contains(&(method.to_owned(), route.to_owned())), "a threshold for {name}, which is not sent");
    }
    requests
}
