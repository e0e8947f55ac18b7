//! Requests in the metrics: counted and timed by route template, never by path.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    extract::{MatchedPath, Request},
    http::{Method, StatusCode},
};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::metrics::{HTTP_DURATION, HTTP_IN_FLIGHT, HTTP_REQUESTS};

/// Counts a client that went away before its answer.
const CLIENT_GONE: u16 = 499;
const UNMATCHED: &str = "unmatched";

/// The metrics of each route, looked up with its first request: to look them up with every request would cost more than
/// the layers around the handler do. There is one for each route, and one for requests that match none.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<RwLock<HashMap<String, Arc<Route>>>>);

struct Route {
    name: String,
    in_flight: Gauge,
    /// Few: a route has some methods, each with some answers.
    answers: RwLock<Vec<Answers>>,
}

/// The metrics of one method with one status.
struct Answers {
    method: &'static str,
    status: u16,
    count: Counter,
    times: Histogram,
}

impl Routes {
    /// Counts and times a request from now on.
    pub(super) fn start(&self, request: &Request) -> Measured {
        let route = self.of(request.extensions().get().map_or(UNMATCHED, MatchedPath::as_str));
        Measured::start(route, method(request.method()))
    }

    fn of(&self, name: &str) -> Arc<Route> {
        let known = self.0.read().get(name).map(Arc::clone);
        known.unwrap_or_else(|| {
            let mut routes = self.0.write();
            Arc::clone(routes.entry(name.to_owned()).or_insert_with(|| Arc::new(Route::new(name))))
        })
    }
}

impl Route {
    fn new(name: &str) -> Self {
        let in_flight = gauge!(HTTP_IN_FLIGHT, "route" => name.to_owned());
        Self { name: name.to_owned(), in_flight, answers: RwLock::default() }
    }

    fn answered(&self, method: &'static str, status: u16, after: Duration) {
        let note = |answers: &[Answers]| {
            let same = |answers: &&Answers| (answers.method, answers.status) == (method, status);
            answers.iter().find(same).map(|answers| answers.note(after))
        };
        if note(&self.answers.read()).is_some() {
            return;
        }
        let mut answers = self.answers.write();
        // Another request may have added it meanwhile.
        if note(&answers).is_none() {
            let first = Answers::of(&self.name, method, status);
            first.note(after);
            answers.push(first);
        }
    }
}

impl Answers {
    fn of(route: &str, method: &'static str, status: u16) -> Self {
        let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        Self { method, status, count: counter!(HTTP_REQUESTS, &labels), times: histogram!(HTTP_DURATION, &labels) }
    }

    fn note(&self, after: Duration) {
        self.count.increment(1);
        self.times.record(after.as_secs_f64());
    }
}

/// A request being answered. Dropped before its end, it counts as one whose client went away.
pub(super) struct Measured {
    route: Arc<Route>,
    method: &'static str,
    started: Instant,
    status: u16,
}

impl Measured {
    fn start(route: Arc<Route>, method: &'static str) -> Self {
        route.in_flight.increment(1.0);
        Self { route, method, started: Instant::now(), status: CLIENT_GONE }
    }

    pub(super) fn finish(mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.route.answered(self.method, self.status, self.started.elapsed());
        self.route.in_flight.decrement(1.0);
    }
}

/// The label of a method: one of a closed set, since a client may send any word.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn each_route_method_and_status_has_a_series_of_its_own() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let shown = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let routes = Routes::default();
            let answer = |route: &str, method, status: Option<u16>| {
                let measured = Measured::start(routes.of(route), method);
                match status.map(StatusCode::from_u16) {
                    Some(Ok(status)) => measured.finish(status),
                    _ => drop(measured),
                }
            };
            for status in [200, 404, 200] {
                answer("/stock/{sku}", "GET", Some(status));
            }
            answer("/stock/{sku}", "HEAD", Some(200));
            answer("/stock", "GET", Some(200));
            answer("/stock", "GET", None);
            let inside = Measured::start(routes.of("/stock"), "GET");
            let text = shown.render();
            let counted = |method: &str, route: &str, status: u16| {
                let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
                let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}{labels} ")));
                [of(HTTP_REQUESTS), of(&format!("{HTTP_DURATION}_count"))].map(|count| count.unwrap_or("0").to_owned())
            };
            assert_eq!(counted("GET", "/stock/{sku}", 200), ["2", "2"], "{text}");
            assert_eq!(counted("GET", "/stock/{sku}", 404), ["1", "1"], "{text}");
            assert_eq!(counted("HEAD", "/stock/{sku}", 200), ["1", "1"], "{text}");
            assert_eq!(counted("GET", "/stock", 200), ["1", "1"], "{text}");
            assert_eq!(counted("GET", "/stock", CLIENT_GONE), ["1", "1"], "{text}");
            for (route, requests) in [("/stock", 1), ("/stock/{sku}", 0)] {
                assert!(text.contains(&format!("{HTTP_IN_FLIGHT}{{route=\"{route}\"}} {requests}\n")), "{text}");
            }
            drop(inside);
        });
    }
}
