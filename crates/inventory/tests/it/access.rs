//! The service as users of Redis and Postgres with only the rights that are documented.

use reqwest::Method;

use crate::{
    console_events::logs,
    flash::{open, reserved, until_closed, until_open, until_stored},
    stage::{Answer, Stage, until},
    stock_db::execute,
};

const OF_THE_LIBRARY: &str = include_str!("../../../stockade/src/redis/access.md");
const OF_THE_LIBRARY_IN_POSTGRES: &str = include_str!("../../../stockade/src/postgres/rights.sql");
const OF_THE_SERVICE: &str = include_str!("../../README.md");

/// The rights in the line that starts with `beginning`.
fn rights(text: &'static str, beginning: &str) -> impl Iterator<Item = &'static str> + use<> {
    let line = text.lines().find_map(|line| line.strip_prefix(beginning));
    line.unwrap_or_else(|| panic!("{beginning} is not documented")).split(' ')
}

/// The rights that a part of the library needs, in addition to those that there are.
fn further(part: &str) -> impl Iterator<Item = &'static str> + use<> {
    rights(OF_THE_LIBRARY, &format!("user {part} ")).filter(|rule| !["resetchannels", "-@all"].contains(rule))
}

/// The URL of the database for a role with these rights.
async fn role(stage: &Stage) -> String {
    let (_, chapter) = OF_THE_SERVICE.split_once("## Rights in Postgres").unwrap();
    let (_, rights) = chapter.split_once("```sql").unwrap();
    let (rights, _) = rights.split_once("```").unwrap();
    // The administrator is called `stockade`, so the tables of the test are in this schema.
    let role = "create role shop login password 'shop'; alter role shop set search_path = stockade";
    execute(&stage.pool, role).await;
    execute(&stage.pool, OF_THE_LIBRARY_IN_POSTGRES).await;
    execute(&stage.pool, rights).await;
    let url = stage.postgres.url();
    let (_, place) = url.split_once('@').unwrap();
    format!("postgres://shop:shop@{place}")
}

#[tokio::test]
async fn the_service_works_with_what_is_documented() {
    let stage = Stage::start().await;
    let user = ["ACL", "SETUSER", "somebody", "reset"].into_iter();
    let rules: Vec<_> = user
        .chain(rights(OF_THE_LIBRARY, "user locks "))
        .chain(["cache", "filter"].into_iter().flat_map(further))
        .chain(rights(OF_THE_SERVICE, "user inventory "))
        .collect();
    stage.redis.command(&rules).await.unwrap();
    let url = stage.redis.url().replace("redis://", "redis://somebody:password@");
    let settings = [("REDIS_URL", url.as_str()), ("DATABASE_URL", &role(&stage).await)];
    let [instance, other] = [stage.serve(&settings).await, stage.serve(&settings).await];
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;

    assert_eq!(instance.put("A", 10).await.status, 201);
    assert_eq!(instance.get("/stock/A").await.status, 200);
    assert_eq!(instance.get("/stock/absent").await.status, 404);
    assert_eq!(instance.adjust("A", -1).await.status, 200);
    for path in ["/admin/locks", "/admin/cache", "/admin/cache/A"] {
        assert_eq!(Answer::to(instance.admin(Method::GET, path)).await.status, 200, "{path}");
    }
    for path in ["/admin/locks/stock%3AA", "/admin/cache/A", "/admin/cache"] {
        let done = Answer::to(instance.admin(Method::DELETE, path)).await;
        assert!(done.status.is_success(), "{path}: {done:?}");
    }
    let heard = async || {
        logs(&instance, "")
            .await
            .iter()
            .any(|one| one["address"] == other.ops["http://".len()..] && one["log"].is_object())
    };
    until("the log of the other instance", heard).await;
    assert_eq!(open(&instance, "A", 5, 5).await.status, 201);
    until_open(&instance).await;
    reserved(&instance, "somebody", 2).await;
    until_stored(&stage, 2).await;
    until_closed(&instance).await;
    assert_eq!(stage.redis.command(&["ACL", "LOG"]).await.unwrap(), "", "nothing was refused");
}
