//! The filter of existing SKUs: an id that never existed costs the database nothing, an existing one is found.

use std::{path::Path, process::ExitStatus};

use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::{
    stage::{Answer, Instance, Stage, bare_command, outcome, until},
    support::{figure, fleet},
};

async fn cache(instance: &Instance) -> Value {
    Answer::to(instance.admin(Method::GET, "/admin/cache")).await.json()
}

async fn until_built(instance: &Instance) {
    until("the filter is complete", async || cache(instance).await["filter"]["ready"] == true).await;
}

/// Reads `ids` SKUs that don't exist. Returns how many of these reads asked the database.
async fn loads_of_absent(instance: &Instance, name: &str, ids: u64) -> u64 {
    let loads = async || cache(instance).await["loads_absent"].as_u64().unwrap();
    let before = loads().await;
    let ask = async |n: u64| instance.get(&format!("/stock/{name}-{n}")).await.status;
    let answers: Vec<_> = stream::iter(0..ids).map(ask).buffer_unordered(8).collect().await;
    assert!(answers.iter().all(|status| *status == StatusCode::NOT_FOUND), "{answers:?}");
    loads().await - before
}

#[tokio::test]
async fn ids_that_never_existed_cost_the_database_no_more_than_the_false_positives() {
    let ids = std::env::var("ABSENT_IDS").map_or(1_000, |ids| ids.parse().unwrap());
    let stage = Stage::start().await;
    let insert = "insert into stock (sku, quantity) select 'n' || number, 7 from generate_series(1, 2000) number";
    sqlx::query(insert).execute(&stage.pool).await.unwrap();
    let instance = stage.serve(&[("CACHE_WARM_KEYS", "0")]).await;
    until_built(&instance).await;
    assert_eq!(cache(&instance).await["filter"]["keys"], 2_000);
    let loads = loads_of_absent(&instance, "absent", ids).await;
    figure(&format!("{ids} absent ids: {loads} loads"));
    assert!(loads <= ids / 100, "{loads} loads of {ids}");
    for n in [1, 1_000, 2_000] {
        assert_eq!(instance.get(&format!("/stock/n{n}")).await.status, 200, "the filter knows earlier SKUs");
    }
    let without = stage.serve(&[("SKU_FILTER", "off")]).await;
    assert_eq!(loads_of_absent(&without, "other", 20).await, 20, "without the filter every read asks the database");
}

#[tokio::test]
async fn a_sku_is_found_by_every_instance_as_soon_as_it_was_created() {
    let stage = Stage::start().await;
    let [a, b] = <[_; 2]>::try_from(fleet(&stage, 2, &[]).await).ok().unwrap();
    // An instance that does not ask the filter still adds to it.
    let off = stage.serve(&[("SKU_FILTER", "off")]).await;
    for instance in [&a, &b] {
        until_built(instance).await;
    }
    for (n, creator) in [&a, &b, &off].into_iter().enumerate() {
        let sku = format!("new-{n}");
        for instance in [&a, &b] {
            let absent = instance.get(&format!("/stock/{sku}")).await;
            assert_eq!(absent.status, 404, "{absent:?}");
        }
        assert_eq!(creator.put(&sku, 1).await.status, 201);
        for instance in [&a, &b] {
            let found = instance.get(&format!("/stock/{sku}")).await;
            assert_eq!(found.status, 200, "{found:?}");
        }
    }
    assert_eq!(cache(&a).await["loads_absent"], 0, "the filter said so, not the database");
}

async fn filter_rebuild(stage: &Stage) -> (ExitStatus, String) {
    let mut command = bare_command("filter");
    command.arg("rebuild").env("DATABASE_URL", &stage.database_url).env("REDIS_URL", stage.redis.url());
    outcome(command).await
}

#[tokio::test]
async fn what_was_created_by_other_means_is_found_after_the_filter_was_told_or_built_again() {
    let stage = Stage::start().await;
    let orders = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("seed-{}.csv", std::process::id()));
    std::fs::write(&orders, "InvoiceNo,StockCode,Quantity\n1,seeded,5\n").unwrap();
    let instance = stage.serve(&[]).await;
    until_built(&instance).await;

    let csv = ("SEED_CSV", orders.to_str().unwrap());
    let (status, output) = stage.run("seed", &[csv]).await;
    assert!(!status.success() && output.contains("CACHE_REDIS_URL"), "{output}");
    assert_eq!(stage.count("select count(*) from stock").await, 0, "it creates no SKU that the filter would hide");
    let (status, output) = stage.run("seed", &[csv, ("REDIS_URL_FILE", "/no/such/file")]).await;
    assert!(!status.success() && output.contains("REDIS_URL_FILE"), "{output}");
    let url = orders.with_extension("url");
    std::fs::write(&url, stage.redis.url()).unwrap();
    let (status, output) = stage.run("seed", &[csv, ("REDIS_URL_FILE", url.to_str().unwrap())]).await;
    assert!(status.success(), "{output}");
    assert_eq!(instance.get("/stock/seeded").await.status, 200);

    sqlx::query("insert into stock (sku, quantity) values ('by-hand', 7)").execute(&stage.pool).await.unwrap();
    assert_eq!(instance.get("/stock/by-hand").await.status, 404, "nobody told the filter");
    let (status, output) = filter_rebuild(&stage).await;
    assert!(status.success(), "{output}");
    let found = instance.get("/stock/by-hand").await;
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!(instance.get("/stock/seeded").await.status, 200);
}
