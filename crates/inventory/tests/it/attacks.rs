//! The attack lab on the operators' port.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Answer, Instance, Stage, until};

async fn send(instance: &Instance, method: Method, path: &str) -> Answer {
    Answer::to(instance.admin(method, &format!("/admin/attacks{path}"))).await
}

/// The last run of an attack.
async fn run(instance: &Instance, attack: &str) -> Value {
    let answer = send(instance, Method::GET, &format!("/{attack}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Runs an attack to its end.
async fn attack(instance: &Instance, attack: &str, callers: u32) -> Value {
    let begun = send(instance, Method::POST, &format!("/{attack}?callers={callers}")).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    until("its end", async || run(instance, attack).await["state"] != "running").await;
    let ended = run(instance, attack).await;
    assert_eq!(ended["state"], "ended", "{ended}");
    ended
}

/// Where an instance puts the folders of the servers that it starts. PostgreSQL's user has to enter it.
fn folder() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap()
}

/// An instance that attacks, and finds `redis-server` to attack.
async fn attacker(stage: &Stage, folder: &TempDir) -> Instance {
    let path = std::env::var("PATH").expect("a test is run with PATH");
    stage.serve(&[("LAB", "on"), ("PATH", &path), ("TMPDIR", folder.path().to_str().unwrap())]).await
}

/// How many servers of an attack there are.
fn servers(folder: &TempDir) -> usize {
    std::fs::read_dir(folder.path()).unwrap().count()
}

fn figure(run: &Value, side: &str, name: &str) -> u64 {
    run[side][name].as_u64().unwrap_or_else(|| panic!("{side}.{name} of {run}"))
}

#[tokio::test]
async fn without_the_lab_there_are_no_attacks_and_without_the_token_nobody_begins_one() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for (method, path) in [(Method::GET, ""), (Method::POST, "/breakdown"), (Method::DELETE, "")] {
        let refused = send(&instance, method, path).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (404, "not-found"));
    }
    let instance = stage.serve(&[("LAB", "on")]).await;
    let url = format!("{}/admin/attacks/breakdown", instance.ops);
    let refused = Answer::to(reqwest::Client::new().post(url)).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (401, "unauthorized"));
}

#[tokio::test]
async fn defences_cost_one_load_of_a_hot_key_and_next_to_nothing_for_what_does_not_exist() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;

    let absent = attack(&instance, "penetration", 80).await;
    assert_eq!((figure(&absent, "on", "answered"), figure(&absent, "off", "answered")), (400, 400), "{absent}");
    assert_eq!(figure(&absent, "off", "loads"), 400, "one statement for each id");
    assert!(figure(&absent, "on", "loads") < 40, "the false positives of a filter: {absent}");

    let hot = attack(&instance, "breakdown", 80).await;
    assert_eq!((figure(&hot, "on", "answered"), figure(&hot, "off", "answered")), (80, 80), "{hot}");
    assert_eq!(figure(&hot, "on", "loads"), 1, "{hot}");
    assert!(figure(&hot, "off", "loads") > 1, "{hot}");
    assert!(hot["verdict"].as_str().unwrap().starts_with("With the defences 1 load answered 80 callers"), "{hot}");
    assert_eq!(hot["moments"].as_array().unwrap().last().unwrap()["off"]["answered"], 80, "{hot}");
    let made: i64 = stage.count("select count(*) from \"lab-attack\".goods").await;
    assert_eq!((made, stage.count("select count(*) from stock").await), (1_000, 0), "the stock is not touched");
}

#[tokio::test]
async fn an_attack_counts_no_load_of_the_one_before() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;
    attack(&instance, "slow-postgres", 8).await;
    let absent = attack(&instance, "penetration", 8).await;
    assert_eq!(figure(&absent, "on", "answered"), 40, "{absent}");
    assert!(figure(&absent, "on", "loads") <= 2, "the false positives of a filter: {absent}");
}

#[tokio::test]
async fn an_attack_is_one_at_a_time_and_can_be_stopped() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;
    for (path, status) in [("/nothing", 404), ("/breakdown?callers=7", 400), ("/breakdown?buyers=9", 400)] {
        assert_eq!(send(&instance, Method::POST, path).await.status, status, "{path}");
    }
    assert_eq!(send(&instance, Method::GET, "/breakdown").await.status, 404, "never run");

    assert_eq!(send(&instance, Method::POST, "/avalanche?callers=8").await.status, 202);
    let second = send(&instance, Method::POST, "/penetration").await;
    assert_eq!((second.status.as_u16(), second.problem().as_str()), (409, "attack-running"));
    assert_eq!(send(&instance, Method::DELETE, "").await.status, 204);
    until("the end", async || run(&instance, "avalanche").await["state"] == "stopped").await;
    attack(&instance, "penetration", 8).await;
}

#[tokio::test]
async fn attacks_of_two_instances_take_turns() {
    let stage = Stage::start().await;
    let instances = [stage.serve(&[("LAB", "on")]).await, stage.serve(&[("LAB", "on")]).await];
    assert_eq!(send(&instances[0], Method::POST, "/avalanche?callers=8").await.status, 202);
    until("callers", async || run(&instances[0], "avalanche").await["moments"] != json!([])).await;
    assert_eq!(send(&instances[1], Method::POST, "/stopped-holder").await.status, 202);
    until("a queue", async || {
        let turn = Answer::to(instances[1].admin(Method::GET, "/admin/locks/attack%3Aturn")).await;
        turn.status == 200 && turn.json()["waiting"] == 1
    })
    .await;
    let waits = run(&instances[1], "stopped-holder").await;
    assert_eq!((&waits["state"], &waits["moments"]), (&json!("running"), &json!([])), "{waits}");
    assert_eq!(send(&instances[0], Method::DELETE, "").await.status, 204);
    until("its end", async || run(&instances[1], "stopped-holder").await["state"] == "ended").await;

    // An attack that waits can be stopped, too.
    assert_eq!(send(&instances[0], Method::POST, "/avalanche?callers=8").await.status, 202);
    until("callers", async || run(&instances[0], "avalanche").await["moments"] != json!([])).await;
    assert_eq!(send(&instances[1], Method::POST, "/stopped-holder").await.status, 202);
    assert_eq!(send(&instances[1], Method::DELETE, "").await.status, 204);
    until("its end", async || run(&instances[1], "stopped-holder").await["state"] == "stopped").await;
    assert_eq!(run(&instances[0], "avalanche").await["state"], "running", "only the one that waited");
}

#[tokio::test]
async fn stock_that_a_fence_guards_is_sold_once() {
    let stage = Stage::start().await;
    let folder = folder();
    let instance = attacker(&stage, &folder).await;
    let stock = |run: &Value, side: &str, name: &str| run[side]["stock"][name].as_i64().unwrap();

    let stopped = attack(&instance, "stopped-holder", 8).await;
    assert_eq!(figure(&stopped, "on", "failed"), 10, "each stopped holder is refused: {stopped}");
    assert_eq!((stock(&stopped, "on", "sold"), stock(&stopped, "on", "lost")), (10, 0), "{stopped}");
    assert_eq!((stock(&stopped, "off", "sold"), stock(&stopped, "off", "lost")), (20, 10), "{stopped}");
    // A refusal is counted with the time that it took, as a sale is: the lease of 400 ms ends before either.
    assert_eq!((figure(&stopped, "on", "answered"), figure(&stopped, "off", "answered")), (10, 20), "{stopped}");
    for side in ["on", "off"] {
        assert!(stopped[side]["p50_ms"].as_f64() > Some(200.0), "{side} {stopped}");
    }

    if cfg!(feature = "demo") {
        // Its other schemes take long: the verdict of the two sides does not wait for them.
        assert_eq!(send(&instance, Method::POST, "/last-unit?callers=400").await.status, 202);
        until("a verdict", async || run(&instance, "last-unit").await["verdict"] != "").await;
        let told = run(&instance, "last-unit").await;
        assert_eq!((&told["state"], stock(&told, "on", "sold")), (&"running".into(), 20), "{told}");
        // At its worst moment: servers have a folder, and no supervisor yet that would remove it.
        until("servers of its own", async || servers(&folder) > 0).await;
        assert_eq!(send(&instance, Method::DELETE, "").await.status, 204);
        until("its end", async || run(&instance, "last-unit").await["state"] == "stopped").await;
        let told = run(&instance, "last-unit").await;
        let schemes = told["schemes"].as_array().unwrap();
        assert_eq!(schemes.len(), 14, "a scheme without a count is told, too: {told}");
        let redlock = schemes.iter().find(|line| line["scheme"] == "redlock").unwrap();
        assert_eq!(
            (&redlock["missing"], &redlock["sold"]),
            (&json!("no result: the attack ended before"), &Value::Null)
        );
        until("its servers are gone", async || servers(&folder) == 0).await;
    }
    let sold = attack(&instance, "last-unit", 400).await;
    let schemes = sold["schemes"].as_array().unwrap();
    let line = |name: &str| schemes.iter().find(|line| line["scheme"] == name).unwrap();
    let mut right = vec!["for-update", "conditional-update", "decrby", "script"];
    // Under this scheme nobody is promised a turn: on a busy machine all buyers may give up before the last unit.
    assert!(line("optimistic")["sold"].as_i64() <= Some(20) && line("optimistic")["lost"] == 0, "{sold}");
    if cfg!(feature = "demo") {
        assert_eq!(schemes.len(), 14, "all of the lab but the two sides: {sold}");
        right.push("flash");
        // A holder that the machine starves beyond its lease sells a unit twice under this scheme.
        assert!(line("redlock")["sold"].as_i64() >= Some(20), "{sold}");
        assert_eq!(line("stopped")["lost"], 0, "{sold}");
        let lost = line("stopped-unfenced")["lost"].as_i64();
        assert!(lost > Some(0), "who went on wrote what it had read: {sold}");
    } else {
        assert_eq!(schemes.len(), 9, "all that are served but the two sides: {sold}");
    }
    for name in right {
        assert_eq!((&line(name)["sold"], &line(name)["lost"]), (&20.into(), &0.into()), "{name} {sold}");
    }
    assert_eq!((stock(&sold, "on", "sold"), stock(&sold, "on", "lost")), (20, 0), "{sold}");
    // Without a lock it is chance how many are lost; the ledger and the figures agree.
    let ledger = stage.count("select count(*) from \"lab-no-lock\".sold").await;
    assert_eq!(stock(&sold, "off", "sold"), ledger, "{sold}");
}

#[cfg(feature = "demo")]
#[tokio::test]
async fn the_log_says_why_schemes_with_servers_of_their_own_have_no_count() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on"), ("REDIS_SERVER", "/nowhere")]).await;
    let sold = attack(&instance, "last-unit", 8).await;
    let schemes = sold["schemes"].as_array().unwrap();
    let redlock = schemes.iter().find(|line| line["scheme"] == "redlock").unwrap();
    assert_eq!(redlock["missing"], "broke off: the log says why", "{sold}");
    assert!(instance.log().contains("REDIS_SERVER=/nowhere"), "{}", instance.log());
}

#[cfg(feature = "demo")]
#[tokio::test]
async fn the_lock_of_a_process_that_is_killed_goes_on_when_its_lease_ends_and_without_a_lease_never() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;
    let killed = attack(&instance, "killed-holder", 8).await;
    assert_eq!((figure(&killed, "on", "answered"), figure(&killed, "on", "failed")), (20, 0), "{killed}");
    assert_eq!((figure(&killed, "off", "answered"), figure(&killed, "off", "failed")), (0, 20), "{killed}");
    assert_eq!(stage.redis.command(&["EXISTS", "lab-attack:lock"]).await.unwrap(), "0", "its key goes with the attack");

    assert_eq!(send(&instance, Method::POST, "/killed-holder").await.status, 202);
    until("a holder", async || run(&instance, "killed-holder").await["moments"] != json!([])).await;
    assert_eq!(send(&instance, Method::DELETE, "").await.status, 204);
    until("its key is gone", async || stage.redis.command(&["EXISTS", "lab-attack:lock"]).await.unwrap() == "0").await;
    assert_eq!(run(&instance, "killed-holder").await["state"], "stopped");

    // A third of the lease of 1 s may be over when the process renews it. A lock that was given back would be free at
    // once.
    assert!(killed["on"]["slowest_ms"].as_f64() > Some(500.0), "{killed}");
}

#[cfg(feature = "demo")]
#[tokio::test]
async fn a_redis_that_loses_its_keys_is_one_of_the_attacks_own() {
    let stage = Stage::start().await;
    let folder = folder();
    let instance = attacker(&stage, &folder).await;
    stage.redis.command(&["SET", "mine", "kept"]).await.unwrap();
    let flushed = attack(&instance, "flushed-redis", 200).await;
    for side in ["on", "off"] {
        assert_eq!((figure(&flushed, side, "answered"), figure(&flushed, side, "failed")), (300, 0), "{flushed}");
        // 20 keys, and some that expire in these 3 s; without FLUSHALL only those.
        assert!((10..60).contains(&figure(&flushed, side, "loads")), "{flushed}");
    }
    assert_eq!(stage.redis.command(&["GET", "mine"]).await.unwrap(), "kept");
    let has = |text: &str, cache| text.contains(&format!("\nstockade_subscription_up{{cache=\"{cache}\"}} 1\n"));
    until("neither the cache of the service nor that of the attack is shown as cut off", async || {
        let metrics = instance.metrics().await;
        has(&metrics, "stock") && has(&metrics, "attack")
    })
    .await;
}

#[cfg(feature = "demo")]
#[tokio::test]
async fn the_fewest_callers_ask_both_sides() {
    let stage = Stage::start().await;
    let folder = folder();
    let instance = attacker(&stage, &folder).await;
    let frozen = attack(&instance, "frozen-redis", 8).await;
    for side in ["on", "off"] {
        assert!(figure(&frozen, side, "answered") + figure(&frozen, side, "failed") > 0, "{frozen}");
    }
}

#[cfg(feature = "demo")]
#[tokio::test]
async fn a_frozen_redis_holds_up_only_those_without_defences_and_ends_with_its_attack() {
    let stage = Stage::start().await;
    let folder = folder();
    let instance = attacker(&stage, &folder).await;
    assert_eq!(servers(&folder), 0);
    assert_eq!(send(&instance, Method::POST, "/frozen-redis?callers=400").await.status, 202);
    until("answers on one side only", async || {
        let frozen = run(&instance, "frozen-redis").await;
        assert_eq!(frozen["state"], "running", "{frozen}");
        let moments = frozen["moments"].as_array().unwrap();
        let answered = |moment: &Value, side: &str| moment[side]["answered"].as_u64().unwrap();
        let Some(last) = moments.last() else { return false };
        let since = moments.iter().find(|moment| answered(moment, "off") == answered(last, "off"));
        since.is_some_and(|since| answered(last, "off") > 0 && answered(last, "on") > answered(since, "on") + 10)
    })
    .await;
    assert_eq!(servers(&folder), 1, "it still stands still");
    assert_eq!(send(&instance, Method::DELETE, "").await.status, 204);
    until("the end", async || run(&instance, "frozen-redis").await["state"] == "stopped").await;
    until("its server is gone", async || servers(&folder) == 0).await;
}
