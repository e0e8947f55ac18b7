use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::support::{LEASE, SHORT, Sku, until};
use crate::lock::{Force, Locks, LossReason};

/// The value of a line of the exposition.
fn value(handle: &PrometheusHandle, line: &str) -> Option<String> {
    let rendered = handle.render();
    rendered.lines().find_map(|text| text.strip_prefix(line)).map(|value| value.trim().to_owned())
}

/// The tests run on one thread, to which the recorder belongs.
#[tokio::test]
async fn each_attempt_is_counted_once_by_its_outcome() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::builder().max_waiters(1).memory();
    let count = |mode: &str, outcome: &str| {
        let name = "stockade_lock_acquisitions_total";
        value(&handle, &format!("{name}{{lock=\"stock\",mode=\"{mode}\",outcome=\"{outcome}\"}}"))
    };
    let gauge = |name: &str| value(&handle, name);

    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    assert_eq!(gauge("stockade_locks_held{lock=\"stock\",mode=\"write\"}").as_deref(), Some("1"));
    assert!(locks.read(&Sku("1")).try_acquire().await.unwrap().is_none());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write(&Sku("1")).acquire());
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    assert_eq!(gauge("stockade_lock_waiters{lock=\"stock\"}").as_deref(), Some("1"));
    assert!(locks.write(&Sku("1")).wait(SHORT).acquire().await.is_err(), "the queue is full");
    tasks.shutdown().await;
    assert!(locks.write(&Sku("1")).wait(SHORT).acquire().await.is_err());
    tasks.spawn(locks.write(&Sku("1")).acquire());
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    let inner = guard.reenter();
    drop(guard);
    drop(inner);
    drop(tasks.join_next().await.unwrap().unwrap().unwrap());

    assert_eq!(count("write", "granted").as_deref(), Some("2"));
    assert_eq!(count("read", "timeout").as_deref(), Some("1"));
    assert_eq!(count("write", "timeout").as_deref(), Some("1"));
    assert_eq!(count("write", "full").as_deref(), Some("1"));
    assert_eq!(count("write", "cancelled").as_deref(), Some("1"));
    assert_eq!(gauge("stockade_lock_waiters{lock=\"stock\"}").as_deref(), Some("0"));
    assert_eq!(gauge("stockade_locks_held{lock=\"stock\",mode=\"write\"}").as_deref(), Some("0"));
    assert_eq!(gauge("stockade_lock_wait_seconds_count{lock=\"stock\",mode=\"write\"}").as_deref(), Some("2"));
    assert_eq!(gauge("stockade_lock_hold_seconds_count{lock=\"stock\",mode=\"write\"}").as_deref(), Some("2"));
    assert_eq!(gauge("stockade_lock_handoff_seconds_count{lock=\"stock\"}").as_deref(), Some("1"));
    assert_eq!(gauge("stockade_lock_lost_total{lock=\"stock\",reason=\"expired\"}").as_deref(), Some("0"));
}

#[tokio::test]
async fn each_of_several_resources_is_counted_as_its_own() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::memory();
    let count = |outcome: &str| {
        let name = "stockade_lock_acquisitions_total";
        value(&handle, &format!("{name}{{lock=\"stock\",mode=\"write\",outcome=\"{outcome}\"}}"))
    };
    let gauge = |name: &str| {
        value(&handle, &format!("{name}{{lock=\"stock\"")).and_then(|line| Some(line.rsplit_once(' ')?.1.to_owned()))
    };
    let all = || locks.write_all(&[Sku("1"), Sku("2"), Sku("3")]);

    let held = all().acquire().await.unwrap();
    assert_eq!(gauge("stockade_locks_held").as_deref(), Some("3"));
    held.release().await.unwrap();
    assert_eq!((count("granted").as_deref(), gauge("stockade_locks_held").as_deref()), (Some("3"), Some("0")));

    // The last key in lock order: two keys are granted before it. The step that asks for all at once is not counted.
    let mut keys = ["1", "2", "3"].map(|id| crate::resource::Key::new("stock", id).unwrap());
    keys.sort_by_key(|key| (key.bucket(), key.to_string()));
    let last = locks.write_keys([keys[2].clone()]).acquire().await.unwrap();
    assert!(all().wait(SHORT).acquire().await.is_err());
    drop(last);
    assert_eq!((count("granted").as_deref(), count("timeout").as_deref()), (Some("6"), Some("1")));
    assert_eq!(count("cancelled"), None);
    assert_eq!(gauge("stockade_lock_waiters").as_deref(), Some("0"));
}

#[tokio::test]
async fn each_loss_is_counted_once_by_its_reason() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::memory();
    let lost =
        |reason: &str| value(&handle, &format!("stockade_lock_lost_total{{lock=\"stock\",reason=\"{reason}\"}}"));

    let forced = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let limited = locks.write(&Sku("2")).max_hold(SHORT).acquire().await.unwrap();
    let released = locks.write(&Sku("3")).lease(LEASE).acquire().await.unwrap();
    let renewed = locks.write(&Sku("4")).lease(LEASE).acquire().await.unwrap();
    for reason in ["expired", "stolen", "forced", "store_lost_data"] {
        assert_eq!(lost(reason).as_deref(), Some("0"), "{reason} is shown before the first loss");
    }
    locks.force_release("stock:1", Force::Now).await.unwrap();
    let after = released.fence();
    released.release().await.unwrap();
    forced.lost().await;
    limited.lost().await;
    after.ownership.lose(LossReason::Expired);
    until("expired", async || lost("expired").as_deref() == Some("1")).await;
    drop((forced, limited));

    assert!(renewed.is_held());
    assert_eq!(lost("forced").as_deref(), Some("1"));
    assert_eq!(lost("expired").as_deref(), Some("1"), "the released one must not count");
    assert!(value(&handle, "stockade_lock_renewal_lag_seconds_count").is_some());
}

#[tokio::test]
async fn a_lock_that_was_lost_to_a_standstill_shows_how_late_its_renewal_came() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let locks = Locks::memory();
    let held = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let (_sender, silent) = std::sync::mpsc::channel::<()>();
    assert!(silent.recv_timeout(LEASE * 2).is_err(), "the runtime stands still");
    assert_eq!(held.lost().await, LossReason::Expired);
    let lag = || value(&handle, "stockade_lock_renewal_lag_seconds_sum")?.parse::<f64>().ok();
    until("the lag is shown", async || lag() > Some(LEASE.as_secs_f64())).await;
}
