use std::{sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use reqwest::Url;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    domain::{Delta, Sku},
    orders::OrderLine,
    replay::{RetryLimits, ShopClient, Tally, Verdict},
};

/// Forty visitors a second.
const EVERY: Duration = Duration::from_millis(25);
const AT_ONCE: usize = 32;
/// One visitor in five buys, and one in twenty asks for an SKU that does not exist.
const BUYS: u32 = 5;
const MISTYPES: u32 = 20;
/// Visitors prefer the SKUs of the first order lines, so that some of them meet.
const FAVOURITES: usize = 3;
const LIMITS: RetryLimits = RetryLimits { retries: 2, total: Duration::from_secs(5) };

/// Visitors that come after the report, so that the console shows a service at work. Dropping this value ends them.
#[derive(Debug)]
pub(super) struct Traffic {
    _task: JoinSet<()>,
}

impl Traffic {
    pub(super) fn start(http: reqwest::Client, targets: Arc<[Url]>, lines: Arc<[OrderLine]>) -> Self {
        let client = ShopClient::new(http, targets, "traffic".into(), LIMITS);
        let mut task = JoinSet::new();
        task.spawn(come_and_go(client, lines));
        Self { _task: task }
    }
}

async fn come_and_go(client: ShopClient, lines: Arc<[OrderLine]>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut inside = JoinSet::new();
    for turn in 0.. {
        ticks.tick().await;
        while inside.try_join_next().is_some() {}
        if inside.len() < AT_ONCE {
            inside.spawn(visit(client.clone(), Arc::clone(&lines), turn));
        }
    }
}

/// A visitor that buys a unit gives it back, so that the stock lasts. The console shows the answers.
async fn visit(client: ShopClient, lines: Arc<[OrderLine]>, turn: usize) {
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    let mut tally = Tally::default();
    let choice = if rng.random() { FAVOURITES.min(lines.len()) } else { lines.len() };
    let Some(line) = lines.get(rng.random_range(0..choice.max(1))) else { return };
    if rng.random_ratio(1, MISTYPES) {
        if let Ok(absent) = Sku::new(&format!("no-such-{turn}")) {
            client.browse(turn, &absent, &mut tally).await;
        }
        return;
    }
    client.browse(turn, &line.sku, &mut tally).await;
    if rng.random_ratio(1, BUYS) {
        for (number, units) in [(2 * turn, -1), (2 * turn + 1, 1)] {
            let Ok(delta) = Delta::new(units) else { return };
            let bought = OrderLine { number: number as u64, invoice: "traffic".into(), sku: line.sku.clone(), delta };
            if client.adjust(turn, &bought, Instant::now(), &mut rng, &mut tally).await != Verdict::Applied {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use axum::{Json, Router, http::StatusCode, routing::post};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_was_refused_is_not_given_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (bought, returned) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let seen = [Arc::clone(&bought), Arc::clone(&returned)];
        let adjust = async move |Json(change): Json<Value>| {
            let units = change["delta"].as_i64().unwrap();
            seen[usize::from(units > 0)].fetch_add(1, Ordering::Relaxed);
            (StatusCode::CONFLICT, Json(json!({"type": "/problems/insufficient-stock", "applied": false})))
        };
        let app = Router::new().route("/stock/A/adjustments", post(adjust));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await });
        let http = ShopClient::http(1, [&url]).unwrap();
        let client = ShopClient::new(http, [url].into(), "traffic".into(), LIMITS);
        let line =
            OrderLine { number: 1, invoice: "1".into(), sku: Sku::new("A").unwrap(), delta: Delta::new(-1).unwrap() };
        let lines: Arc<[OrderLine]> = [line].into();
        let mut turn = 0;
        while bought.load(Ordering::Relaxed) < 5 {
            visit(client.clone(), Arc::clone(&lines), turn).await;
            turn += 1;
        }
        assert_eq!(returned.load(Ordering::Relaxed), 0);
    }
}
