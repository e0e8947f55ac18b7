//! The service as a user of Redis with only the rights that are documented.

use reqwest::Method;

use crate::{
    console_events::logs,
    flash::{open, reserved, until_closed, until_open, until_stored},
    stage::{Answer, Stage, until},
};

const OF_THE_LIBRARY: &str = include_str!("../../../stockade/src/redis/access.md");
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
    let [instance, other] = [stage.serve(&[("REDIS_URL", &url)]).await, stage.serve(&[("REDIS_URL", &url)]).await];

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
