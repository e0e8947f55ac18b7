//! Random calls of the scripts, by loads that are late, repeated or abandoned. Each reply, and the state that the call
//! leaves, is compared with what follows from the state before.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use stockade_testbed::RedisServer;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{fuzz_state::FuzzState, messages::Messages};

const FUZZERS: u64 = 4;

/// The cases that must occur often, so that none passes by chance: a call, its reply and the reason. The calls go on
/// until each has.
const ANSWERS: &[&str] = &[
    "lease BYPASS",
    "lease BYPASS its value can't be stored",
    "lease HIT",
    "lease HIT its tags hold",
    "lease HIT loaded since",
    "lease HELD",
    "lease FAILING",
    "lease WAIT",
    "lease WAIT its tags hold",
    "lease WAIT its tag was invalidated",
    "lease WAIT below the floor",
    "lease WAIT of another table",
    "lease LEASED",
    "lease LEASED its tags hold",
    "lease LEASED its tag was invalidated",
    "lease LEASED below the floor",
    "lease LEASED of another table",
    "lease LEASED a table is begun",
    "lease LEASED of another epoch",
    "lease LEASED over a load of another epoch",
    "lease LEASED over a load from before the clock was set back",
    "fill ACCEPTED",
    "fill ACCEPTED its tags hold",
    "fill OUTDATED its tag was invalidated",
    "fill OUTDATED below the floor",
    "fill OUTDATED of another table",
    "fill OUTDATED of another epoch",
    "fill REFUSED",
    "abort ABORTED",
    "abort REFUSED",
    "read ABSENT",
    "read UNTAGGED",
    "read HOLDS",
    "read OUTDATED its tag was invalidated",
    "read OUTDATED below the floor",
    "read OUTDATED of another table",
    "read OUTDATED of another epoch",
    "clear CLEARED",
    "lose epoch LOST",
    "invalidate DROPPED",
    "invalidate tag DROPPED",
    "invalidate tag DROPPED a table is begun",
    "invalidate tag DROPPED some are forgotten",
    "begin BEGUN",
    "end ENDED",
    "end MISSING",
    "join TRUSTED",
    "join TRUSTED it has served for long",
    "join UNTRUSTED new",
    "join REPLACING",
    "join REPLACING new",
    "trust TRUSTED",
    "trust REFUSED",
    "beat BEAT",
    "lose LOST",
    "forget FORGOTTEN",
];
const OFTEN: u64 = 3;
/// How often the calls go on.
const TURNS: u64 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn random_calls_of_the_cache_scripts_do_what_they_must() {
    let seed: u64 = std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    let calls: u64 = if std::env::var_os("STOCKADE_LONG_RUNS").is_some() { 100_000 } else { 10_000 };
    println!("STOCKADE_SEED={seed}");
    let server = RedisServer::start().await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut processes = client.get_async_pubsub().await.unwrap();
    processes.psubscribe("*").await.unwrap();
    let messages = Arc::new(Mutex::new(Messages::default()));
    let (mut listening, ears) = (JoinSet::new(), Arc::clone(&messages));
    listening.spawn(async move {
        let mut messages = processes.into_on_message();
        while let Some(message) = messages.next().await {
            let payload: String = message.get_payload().unwrap();
            ears.lock().await.message(message.get_channel_name(), &payload);
        }
    });

    let began = Instant::now();
    let (mut made, mut told, mut may_be_told, mut tags, mut answers) = (0, 0, 0, 0, BTreeMap::new());
    for turn in 0.. {
        let mut fuzzers = JoinSet::new();
        for number in turn * FUZZERS..(turn + 1) * FUZZERS {
            fuzzers.spawn(FuzzState::new(&server, seed, number).await.make_calls(calls.div_ceil(FUZZERS)));
        }
        while let Some(state) = fuzzers.join_next().await {
            let state = state.unwrap();
            made += state.calls;
            told += state.told;
            may_be_told += state.may_be_told;
            tags += state.tags;
            for (answer, count) in state.answers {
                *answers.entry(answer).or_insert(0) += count;
            }
        }
        println!("{made} calls, each with a look at the keys, in {:?}: {answers:#?}", began.elapsed());
        assert!(made >= calls);
        let rare = ANSWERS.iter().find(|answer| answers.get(**answer).is_none_or(|count| *count < OFTEN));
        let Some(rare) = rare else { break };
        assert!(
            turn < TURNS,
            "STOCKADE_SEED={seed}: {rare} {:?} times, which leaves it unlooked at",
            answers.get(*rare)
        );
    }
    let limit = Instant::now() + Duration::from_secs(20);
    let all_told = told..=told + may_be_told;
    while !all_told.contains(&messages.lock().await.woken) || messages.lock().await.tags < tags {
        let messages = format!("{:?}", messages.lock().await);
        assert!(
            Instant::now() < limit,
            "STOCKADE_SEED={seed}: {all_told:?} were to be woken, {tags} tags told: {messages}"
        );
        assert!(listening.try_join_next().is_none(), "STOCKADE_SEED={seed}: a message was wrong");
        sleep(Duration::from_millis(5)).await;
    }
    listening.shutdown().await;
    // All other keys expire.
    let stays = |name: &str| ["}s:", "}j:", "}t:", "}c:"].iter().any(|kind| name.contains(kind));
    server.until_nothing_is_left_but(stays).await.unwrap();
}
