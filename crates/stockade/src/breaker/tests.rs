use std::sync::Arc;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::{
    Breaker,
    permit::{FIRST_OPEN, LONGEST_OPEN},
    quorum::Quorum,
    series::LABELS,
};

fn fail(breaker: &Breaker, times: u32) {
    for _ in 0..times {
        breaker.permit().unwrap().failed();
    }
}

#[tokio::test(start_paused = true)]
async fn opens_after_five_failures_in_a_row_and_not_before() {
    let breaker = Breaker::new("database");
    fail(&breaker, 4);
    breaker.permit().unwrap().succeeded();
    fail(&breaker, 4);
    assert!(breaker.refusing().is_none());
    fail(&breaker, 1);
    let refused = breaker.permit().unwrap_err();
    assert!(refused <= FIRST_OPEN && refused >= FIRST_OPEN.mul_f64(0.7));
    assert!(breaker.refusing().is_some());
}

#[tokio::test(start_paused = true)]
async fn half_open_lets_one_through_which_decides() {
    let breaker = Breaker::new("database");
    fail(&breaker, 5);
    tokio::time::advance(FIRST_OPEN).await;
    assert!(breaker.refusing().is_none());
    let probe = breaker.permit().unwrap();
    assert!(breaker.permit().is_err());
    probe.failed();
    tokio::time::advance(FIRST_OPEN).await;
    assert!(breaker.permit().is_err(), "the second period is twice as long");
    tokio::time::advance(FIRST_OPEN).await;
    breaker.permit().unwrap().succeeded();
    fail(&breaker, 4);
    assert!(breaker.refusing().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_frees_its_place_and_counts_as_neither() {
    let breaker = Breaker::new("database");
    fail(&breaker, 5);
    tokio::time::advance(FIRST_OPEN).await;
    drop(breaker.permit().unwrap());
    let probe = breaker.permit().unwrap();
    assert!(breaker.permit().is_err());
    probe.succeeded();
    assert!(breaker.permit().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_period_ends_at_ten_seconds() {
    let breaker = Breaker::new("database");
    fail(&breaker, 5);
    for _ in 0..8 {
        tokio::time::advance(LONGEST_OPEN).await;
        breaker.permit().unwrap().failed();
    }
    assert!(breaker.permit().unwrap_err() <= LONGEST_OPEN);
}

#[tokio::test(start_paused = true)]
async fn calls_from_before_it_opened_decide_nothing() {
    let breaker = Breaker::new("database");
    let (early, late) = (breaker.permit().unwrap(), breaker.permit().unwrap());
    fail(&breaker, 5);
    early.succeeded();
    assert!(breaker.permit().is_err());
    tokio::time::advance(FIRST_OPEN).await;
    let probe = breaker.permit().unwrap();
    late.failed();
    probe.succeeded();
    assert!(breaker.permit().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_ends_the_waiting_but_closes_nothing() {
    let breaker = Breaker::new("database");
    fail(&breaker, 5);
    breaker.alive();
    let probe = breaker.permit().unwrap();
    assert!(breaker.permit().is_err());
    probe.failed();
    assert!(breaker.permit().is_err());
    breaker.close();
    assert!(breaker.permit().is_ok());
}

/// The state that the metric shows.
fn shown_by(handle: &PrometheusHandle, name: &str) -> Vec<&'static str> {
    let rendered = handle.render();
    let shows = |label: &&str| {
        let series = format!("stockade_breaker_state{{breaker=\"{name}\",state=\"{label}\"}} 1");
        rendered.lines().any(|line| line == series)
    };
    LABELS.into_iter().filter(shows).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_shown_open_once_too_few_of_its_servers_are_left() {
    const NAME: &str = "of-a-quorum";
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = ::metrics::set_default_local_recorder(&recorder);
    let quorum = Arc::new(Quorum::new(NAME, 3));
    let nodes: Vec<_> = (0..5).map(|_| Breaker::of(&quorum)).collect();
    fail(&nodes[0], 5);
    fail(&nodes[4], 5);
    assert_eq!(shown_by(&handle, NAME), ["closed"], "three of five are a quorum");
    assert_eq!(shown_by(&handle, "redlock_node"), ["open"]);
    fail(&nodes[2], 5);
    assert_eq!(shown_by(&handle, NAME), ["open"]);
    nodes[4].alive();
    assert_eq!(shown_by(&handle, NAME), ["half_open"]);
    nodes[4].close();
    assert_eq!(shown_by(&handle, NAME), ["closed"]);
    fail(&nodes[1], 5);
    assert_eq!(shown_by(&handle, NAME), ["open"]);
    drop(nodes);
    assert_eq!(shown_by(&handle, NAME), ["closed"], "a store that has ended is not down");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_otherwise_closes_a_breaker_that_no_call_asks() {
    let breaker = Breaker::new("without-calls");
    fail(&breaker, 5);
    breaker.answered();
    assert!(breaker.permit().is_err(), "its time is not over");
    tokio::time::advance(FIRST_OPEN).await;
    let probe = breaker.permit().unwrap();
    breaker.answered();
    assert!(breaker.permit().is_err(), "a call is under way, and decides");
    probe.failed();
    breaker.answered();
    assert!(breaker.permit().is_err(), "it has just failed");
    tokio::time::advance(FIRST_OPEN * 2).await;
    breaker.answered();
    fail(&breaker, 4);
    assert!(breaker.permit().is_ok(), "it was closed");
}

#[tokio::test(start_paused = true)]
async fn of_several_breakers_with_one_name_the_metric_shows_the_worst() {
    const NAME: &str = "of-several";
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = ::metrics::set_default_local_recorder(&recorder);
    let shown = || shown_by(&handle, NAME);
    let (one, other) = (Breaker::new(NAME), Breaker::new(NAME));
    assert_eq!(shown(), ["closed"]);
    fail(&one, 5);
    fail(&other, 5);
    assert_eq!(shown(), ["open"]);
    other.close();
    assert_eq!(shown(), ["open"], "the other one is");
    one.alive();
    assert_eq!(shown(), ["half_open"]);
    let third = Breaker::new(NAME);
    assert_eq!(shown(), ["half_open"], "the first one is");
    fail(&third, 5);
    drop(one);
    assert_eq!(shown(), ["open"]);
    // As when a node leaves its cluster.
    drop(third);
    assert_eq!(shown(), ["closed"]);
}
