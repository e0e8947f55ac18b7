use std::{net::IpAddr, sync::Arc, time::Duration};

use rand::rngs::SmallRng;
use reqwest::{Url, redirect::Policy};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::{
    Verdict,
    answer::Answer,
    cache_status::CacheStatus,
    reason::{self, Reason},
    retry::{Backoff, RetryLimits},
    tally::Tally,
};
use crate::{domain::Sku, orders::OrderLine, traces};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than the service takes to give up by itself, so that its own answer is seen.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// A customer of the service: knows its instances and tries again where that is safe.
#[derive(Clone, Debug)]
pub(crate) struct ShopClient {
    http: reqwest::Client,
    targets: Arc<[Url]>,
    /// Tells the keys of this run from those of others.
    run: Arc<str>,
    limits: RetryLimits,
}

#[derive(Serialize)]
struct Adjustment<'a> {
    delta: i64,
    reference: &'a str,
}

impl ShopClient {
    pub(crate) fn new(http: reqwest::Client, targets: Arc<[Url]>, run: Arc<str>, limits: RetryLimits) -> Self {
        Self { http, targets, run, limits }
    }

    /// The HTTP client for [`ShopClient::new`]. No proxy of the environment is asked for instances on this machine.
    pub(crate) fn http<'a>(
        connections: usize,
        instances: impl IntoIterator<Item = &'a Url>,
    ) -> Result<reqwest::Client, reqwest::Error> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .pool_max_idle_per_host(connections)
            // A page that a redirect leads to, such as a login, answers 200 and has applied nothing.
            .redirect(Policy::none())
            .tcp_nodelay(true);
        if instances.into_iter().all(is_local) { client.no_proxy() } else { client }.build()
    }

    /// Applies one order line, trying again as long as that is safe and may help. Each attempt goes to the next
    /// instance, all with the same idempotency key. The latency counts from `since`.
    #[tracing::instrument(name = "replay.line", level = "debug", skip_all, fields(reference = line.reference(), sku = %line.sku))]
    pub(crate) async fn adjust(
        &self,
        turn: usize,
        line: &OrderLine,
        since: Instant,
        rng: &mut SmallRng,
        tally: &mut Tally,
    ) -> Verdict {
        let reference = line.reference();
        let key = key(&self.run, &reference);
        let body = Adjustment { delta: line.delta.get(), reference: &reference };
        let mut backoff = Backoff::new(self.limits, Instant::now());
        // One attempt without a clear answer makes the line's fate unknown until a later one settles it.
        let mut untouched = true;
        let mut attempt = 0;
        let verdict = loop {
            let (answer, why) = self.attempt(turn + attempt, line, &key, &body).await;
            match answer {
                Answer::Applied { replayed } => {
                    tally.replayed += u64::from(replayed);
                    break Verdict::Applied;
                }
                Answer::Refused => break Verdict::Refused,
                Answer::Failed { untouched: this } => {
                    tally.line_failed(why);
                    break Verdict::failed(untouched && this);
                }
                Answer::Retry { after, untouched: this } => {
                    untouched &= this;
                    let Some(pause) = backoff.next(after, Instant::now(), rng) else {
                        tally.line_failed(why);
                        break Verdict::failed(untouched);
                    };
                    tally.retries += 1;
                    attempt += 1;
                    sleep(pause).await;
                }
            }
        };
        tally.adjust.record(since.elapsed());
        verdict
    }

    /// The answer, and the reason if the line is not applied.
    async fn attempt(&self, turn: usize, line: &OrderLine, key: &str, body: &Adjustment<'_>) -> (Answer, Reason) {
        let url = self.url(turn, &line.sku, "/adjustments");
        let request = self.http.post(url).header("idempotency-key", key).json(body);
        let response = match traces::send("/stock/{sku}/adjustments", request).await {
            Ok(response) => response,
            Err(error) => return (Answer::NONE, reason::of_error(&error)),
        };
        let (status, body) = (response.status(), response.body());
        let answer = Answer::read(&line.sku, status, response.headers(), body);
        let is_applied = matches!(answer, Answer::Applied { .. });
        (answer, if is_applied { Reason::default() } else { reason::of_answer(status, body) })
    }

    /// Looks at a SKU, once.
    pub(crate) async fn browse(&self, turn: usize, sku: &Sku, tally: &mut Tally) {
        let since = Instant::now();
        let request = self.http.get(self.url(turn, sku, ""));
        let response = match traces::send("/stock/{sku}", request).await {
            Ok(response) => response,
            Err(error) => return tally.read_failed(reason::of_error(&error)),
        };
        tally.get.record(since.elapsed());
        tally.read(response.status(), CacheStatus::read(response.headers()), response.body());
    }

    fn url(&self, turn: usize, sku: &Sku, rest: &str) -> Url {
        let mut url = self.targets[turn % self.targets.len()].clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/stock/{}{rest}", sku.path_segment()));
        url
    }
}

/// The idempotency key of a line: its reference, or a hash of one that a header can't carry.
fn key(run: &str, reference: &str) -> String {
    const LONGEST: usize = 150;
    let fits = reference.len() <= LONGEST && reference.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { format!("{run}:{reference}") } else { format!("{run}:{:x}", Sha256::digest(reference)) }
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        response::Redirect,
        routing::{get, post},
    };
    use rand::SeedableRng;
    use reqwest::StatusCode;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{domain::Delta, replay::Counters};

    /// As a proxy that wants a login answers, or a page for the time of a maintenance.
    #[tokio::test]
    async fn an_answer_of_another_program_has_applied_nothing_and_counts_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new()
            .route("/login", get("welcome"))
            .route("/stock/B/adjustments", post(StatusCode::NO_CONTENT))
            .route("/stock/C/adjustments", post("we are back soon"))
            .fallback(async || Redirect::to("/login"));
        let server = axum::serve(listener, app).into_future();
        let (client, mut rng, mut tally) = (client(&[&url]), SmallRng::seed_from_u64(7), Tally::default());
        let asked = async {
            for sku in ["A", "B", "C"] {
                let (sku, delta) = (Sku::new(sku).unwrap(), Delta::new(-1).unwrap());
                let line = OrderLine { number: 1, invoice: "536365".to_owned(), sku, delta };
                let verdict = client.adjust(0, &line, Instant::now(), &mut rng, &mut tally).await;
                assert_eq!(verdict, Verdict::Unknown);
            }
            let counts = Counters::scrape(&client.http, &[url.parse().unwrap()]).await;
            assert!(counts.is_err_and(|error| error.to_string().contains("303")));
        };
        tokio::select! {
            () = asked => {}
            _ = server => unreachable!("it serves for ever"),
        }
        let reasons: Vec<_> = tally.line_failures.keys().collect();
        assert_eq!(reasons, ["status 200", "status 204", "status 303"]);
    }

    fn client(targets: &[&str]) -> ShopClient {
        let limits = RetryLimits { retries: 3, total: Duration::from_secs(5) };
        let targets: Arc<[Url]> = targets.iter().map(|url| url.parse().unwrap()).collect();
        ShopClient::new(ShopClient::http(4, &*targets).unwrap(), Arc::clone(&targets), "t".into(), limits)
    }

    #[test]
    fn instances_on_this_machine_are_asked_without_a_proxy() {
        let local = |url: &str| is_local(&url.parse().unwrap());
        assert!(
            ["http://127.0.0.1:8080", "http://127.9.9.9", "http://[::1]:1", "http://localhost"].map(local) == [true; 4]
        );
        assert!(["http://10.0.0.1", "http://inventory-1:8080", "http://localhost.example"].map(local) == [false; 3]);
    }

    #[test]
    fn a_sku_stays_one_path_segment_and_is_encoded_once() {
        let client = client(&["http://127.0.0.1:1"]);
        for (sku, path) in [
            ("85123A", "/stock/85123A"),
            ("BANK CHARGES", "/stock/BANK%20CHARGES"),
            ("gift_0001_20", "/stock/gift_0001_20"),
            ("a/b", "/stock/a%2Fb"),
            ("50%", "/stock/50%25"),
            ("%2F", "/stock/%252F"),
            ("a?b#c", "/stock/a%3Fb%23c"),
            ("ä", "/stock/%C3%A4"),
            ("..x", "/stock/..x"),
        ] {
            assert_eq!(client.url(0, &Sku::new(sku).unwrap(), "").path(), path);
        }
    }

    #[test]
    fn turns_go_round_the_targets_and_keep_their_base_path() {
        let client = client(&["http://127.0.0.1:1/a/", "http://127.0.0.1:2"]);
        let x = Sku::new("x").unwrap();
        assert_eq!(client.url(0, &x, "").as_str(), "http://127.0.0.1:1/a/stock/x");
        assert_eq!(client.url(1, &x, "/adjustments").as_str(), "http://127.0.0.1:2/stock/x/adjustments");
        assert_eq!(client.url(2, &x, "").as_str(), "http://127.0.0.1:1/a/stock/x");
    }
}
