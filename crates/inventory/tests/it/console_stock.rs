//! The requests of the console's stock tab: SKUs by prefix, their ledger, and whether the two agree.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{Answer, Instance, Stage};

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

async fn ask(instance: &Instance, path: &str) -> Answer {
    Answer::to(instance.admin(Method::GET, path)).await
}

/// The SKUs that a search finds, and the `after` of the next page.
async fn search(instance: &Instance, query: &str) -> (Vec<String>, Value) {
    let page = ask(instance, &format!("/admin/stock?{query}")).await.json();
    let skus = page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
    (skus.map(|item| item["sku"].as_str().unwrap().to_owned()).collect(), page["next"].clone())
}

#[tokio::test]
async fn stock_is_found_by_prefix_with_its_ledger_and_checked() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    assert_eq!(instance.put(&encoded(HOSTILE), 10).await.status, 201);
    for (delta, reference) in [(-3, "</td><script>alert(1)</script>"), (5, "back")] {
        let body = json!({ "delta": delta, "reference": reference });
        let path = format!("/stock/{}/adjustments", encoded(HOSTILE));
        assert_eq!(Answer::to(instance.request(Method::POST, &path).json(&body)).await.status, 200);
    }
    // A quantity of zero needs no movement.
    sqlx::query(
        "insert into stock (sku, quantity)
         select sku, 0 from unnest(array['P_', 'Pa', 'p-lower', 'P%', $1, $1 || $1]) as sku
         union all select 'P-' || lpad(n::text, 2, '0'), 0 from generate_series(1, 45) as n",
    )
    .bind("\u{10ffff}".repeat(2))
    .execute(&stage.pool)
    .await
    .unwrap();

    let found = ask(&instance, "/admin/stock?prefix=%3Cimg").await.json();
    let item = &found["items"][0];
    assert_eq!((&item["sku"], &item["quantity"], &item["ledger"]), (&json!(HOSTILE), &json!(12), &json!([10, 7, 12])));
    assert!(item["updated_at"].is_string() && found["next"].is_null(), "{found}");
    let ledger = ask(&instance, &format!("/admin/stock/{}/movements?limit=50", encoded(HOSTILE))).await.json();
    let references: Vec<_> = ledger["items"].as_array().unwrap().iter().map(|line| &line["reference"]).collect();
    assert_eq!(references, [&json!("back"), &json!("</td><script>alert(1)</script>"), &Value::Null], "{ledger}");

    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let (skus, next) = search(&instance, &format!("prefix=P-{after}")).await;
        pages.push(skus.len());
        let Some(next) = next.as_str() else { break };
        assert_eq!(skus.last().unwrap(), next);
        after = format!("&after={}", encoded(next));
    }
    assert_eq!(pages, [20, 20, 5]);
    // Wildcards of SQL patterns match only themselves, and the greatest letter can be a prefix, too.
    assert_eq!(search(&instance, "prefix=P_").await.0, ["P_"]);
    assert_eq!(search(&instance, "prefix=P%25").await.0, ["P%"]);
    let [two, four] = [2, 4].map(|times| "\u{10ffff}".repeat(times));
    assert_eq!(search(&instance, &format!("prefix={}", encoded(&two))).await.0, [two, four]);
    assert_eq!(search(&instance, "").await.0.len(), 20);

    let checked = ask(&instance, "/admin/conservation").await.json();
    assert_eq!((&checked["holds"], &checked["skus"]), (&json!(true), &json!(52)), "{checked}");
    sqlx::query("update stock set quantity = 1 where sku = 'Pa'").execute(&stage.pool).await.unwrap();
    let checked = ask(&instance, "/admin/conservation").await.json();
    assert_eq!((&checked["holds"], &checked["violations"][0]["count"]), (&json!(false), &json!(1)), "{checked}");
    assert_eq!(checked["violations"][0]["examples"], json!(["Pa: quantity 1, sum 0"]), "{checked}");
    refused(&instance).await;
}

async fn refused(instance: &Instance) {
    let long = format!("prefix={}", "x".repeat(65));
    for query in ["prefix=%00", &long, "prefix=a&prefix=b", "limit=1000000", "after=", "after=%00"] {
        assert_eq!(ask(instance, &format!("/admin/stock?{query}")).await.problem(), "bad-request", "{query}");
    }
    assert_eq!(ask(instance, "/admin/stock/none/movements").await.problem(), "not-found");
    for path in ["/admin/stock", "/admin/stock/A/movements"] {
        let request = instance.request_at(&instance.ops, Method::GET, path);
        assert_eq!(Answer::to(request).await.problem(), "unauthorized", "{path}");
        assert_eq!(instance.get(path).await.problem(), "not-found", "{path} is not on the public port");
    }
}
