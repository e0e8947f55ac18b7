use std::future::ready;

use axum::{
    Router,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest, Sha256};

use crate::app::App;

/// Nothing comes from elsewhere, nothing inline runs, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// The script that is no module.
const CHARTS: &str = "/console/uplot/uPlot.iife.min.js";

/// A file of the page: where it is served, its media type, its content.
struct Asset(&'static str, &'static str, &'static [u8]);

macro_rules! assets {
    ($($kind:ident $path:tt $file:literal;)*) => {
        &[$(Asset($path, $kind, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/", $file)))),*]
    };
}

const ASSETS: &[Asset] = assets! {
    HTML "/" "index.html";
    STYLE "/console/style.css" "style.css";
    IMAGE "/console/icon.svg" "icon.svg";
    SCRIPT "/console/main.js" "main.js";
    SCRIPT "/console/access.js" "access.js";
    SCRIPT "/console/admin.js" "admin.js";
    SCRIPT "/console/advice.js" "advice.js";
    SCRIPT "/console/attack.js" "attack.js";
    SCRIPT "/console/attacks.js" "attacks.js";
    SCRIPT "/console/cache.js" "cache.js";
    SCRIPT "/console/cached.js" "cached.js";
    SCRIPT "/console/chart.js" "chart.js";
    SCRIPT "/console/tiers.js" "tiers.js";
    SCRIPT "/console/combine.js" "combine.js";
    SCRIPT "/console/confirm.js" "confirm.js";
    SCRIPT "/console/dom.js" "dom.js";
    SCRIPT "/console/events.js" "events.js";
    SCRIPT "/console/feed.js" "feed.js";
    SCRIPT "/console/fleet.js" "fleet.js";
    SCRIPT "/console/format.js" "format.js";
    SCRIPT "/console/health.js" "health.js";
    SCRIPT "/console/history.js" "history.js";
    SCRIPT "/console/instances.js" "instances.js";
    SCRIPT "/console/ledger.js" "ledger.js";
    SCRIPT "/console/locks.js" "locks.js";
    SCRIPT "/console/overview.js" "overview.js";
    SCRIPT "/console/poll.js" "poll.js";
    SCRIPT "/console/rules.js" "rules.js";
    SCRIPT "/console/sparkline.js" "sparkline.js";
    SCRIPT "/console/stock.js" "stock.js";
    SCRIPT "/console/tabs.js" "tabs.js";
    SCRIPT "/console/token.js" "token.js";
    SCRIPT CHARTS "uplot/uPlot.iife.min.js";
    STYLE "/console/uplot/uPlot.min.css" "uplot/uPlot.min.css";
    TEXT "/console/uplot/LICENSE" "uplot/LICENSE";
};

/// A route for each file.
pub(in crate::ops) fn routes() -> Router<App> {
    let modules = modules();
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let (etag, modules) = (etag(asset.2), (asset.1 == HTML).then(|| modules.clone()));
        let serve = move |headers: HeaderMap| {
            let mut response = answer(asset, &etag, &headers);
            response.headers_mut().extend(modules.clone().map(|modules| (LINK, modules)));
            ready(response)
        };
        router.route(asset.0, get(serve))
    })
}

/// The `Link` header of the page: the browser loads all modules at once, not one after the other as imports name them.
fn modules() -> HeaderValue {
    let modules = ASSETS.iter().filter(|asset| asset.1 == SCRIPT && asset.0 != CHARTS);
    let links = modules.map(|asset| format!("<{}>; rel=modulepreload", asset.0)).collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&links).unwrap_or(HeaderValue::from_static(""))
}

/// A quoted hash of the content.
fn etag(content: &[u8]) -> String {
    format!("\"{:.24x}\"", Sha256::digest(content))
}

/// The file, or 304 where the browser has it. Browsers ask each time: after an upgrade no old file meets a new one.
fn answer(asset: &'static Asset, etag: &str, request: &HeaderMap) -> Response {
    let Asset(_, kind, content) = *asset;
    let headers: [(HeaderName, HeaderValue); 6] = [
        (ETAG, HeaderValue::from_str(etag).unwrap_or(HeaderValue::from_static(""))),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    let has_it =
        request.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok()).any(|line| has(line, etag));
    if has_it { (StatusCode::NOT_MODIFIED, headers).into_response() } else { (headers, content).into_response() }
}

/// Whether a line of `If-None-Match` names the tag. Weak tags count: the comparison is the weak one.
fn has(line: &str, etag: &str) -> bool {
    line.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
