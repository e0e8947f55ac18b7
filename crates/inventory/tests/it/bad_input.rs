use reqwest::Method;

use crate::{
    openapi::Document,
    stage::{Answer, Instance, Stage},
    wire::{Reply, exchange},
};

/// A request that must be refused, and its refusal.
struct Case {
    name: String,
    request: Vec<u8>,
    status: u16,
    problem: &'static str,
}

fn case(name: impl Into<String>, request: Vec<u8>, status: u16, problem: &'static str) -> Case {
    Case { name: name.into(), request, status, problem }
}

fn request(method: &str, path: &str, headers: &[&[u8]], body: &[u8]) -> Vec<u8> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").into_bytes();
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with(b"content-length")) && !body.is_empty() {
        request.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    for header in headers {
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    request
}

fn get(path: &str) -> Vec<u8> {
    request("GET", path, &[], b"")
}

const JSON: &[u8] = b"Content-Type: application/json";

fn adjust(body: impl AsRef<[u8]>) -> Vec<u8> {
    request("POST", "/stock/KNOWN/adjustments", &[JSON], body.as_ref())
}

fn adjust_with(headers: &[&[u8]]) -> Vec<u8> {
    request("POST", "/stock/KNOWN/adjustments", &[&[JSON], headers].concat(), br#"{"delta":1}"#)
}

fn put(body: impl AsRef<[u8]>) -> Vec<u8> {
    request("PUT", "/stock/KNOWN", &[JSON], body.as_ref())
}

fn put_with(headers: &[&[u8]]) -> Vec<u8> {
    request("PUT", "/stock/KNOWN", &[&[JSON], headers].concat(), br#"{"quantity":5}"#)
}

fn paths() -> Vec<Case> {
    let refused = [
        ("blank", "%20".to_owned()),
        ("blank beyond ASCII", "%E3%80%80%C2%A0".to_owned()),
        ("NUL", "%00".to_owned()),
        ("NUL inside", "a%00b".to_owned()),
        ("a Redis command", "%0D%0AFLUSHALL%0D%0A".to_owned()),
        ("a Redis array", "*3%0D%0A$3%0D%0ASET".to_owned()),
        ("tab", "a%09b".to_owned()),
        ("DEL", "%7F".to_owned()),
        ("a dot", "%2E".to_owned()),
        ("two dots", "%2e%2E".to_owned()),
        ("a C1 control", "a%C2%85".to_owned()),
        ("a percent sign that encodes nothing", "%zz".to_owned()),
        ("half an encoded byte", "KNOWN%2".to_owned()),
        ("a percent sign at the end", "KNOWN%".to_owned()),
        ("a percent sign before an encoded one", "%%32%35".to_owned()),
        ("not UTF-8", "%FF%FE".to_owned()),
        ("an overlong slash", "%C0%AF".to_owned()),
        ("a surrogate", "%ED%A0%80".to_owned()),
        ("65 characters", "x".repeat(65)),
        ("65 wide characters", "%F0%9F%93%A6".repeat(65)),
        ("10,000 characters", "x".repeat(10_000)),
    ];
    let absent = [
        "unknown",
        "..%2f..%2fadmin",
        "..%2f",
        "KNOWN%2Fadjustments",
        "*",
        "%5Ba-z%5D",
        "%2500",
        "%27%20OR%201=1--",
        "1;DROP%20TABLE%20stock",
        "%5D%5D..redis.call(%27flushall%27)",
        "$%7Bjndi:ldap:%2F%2Fx%7D",
        "%7Bstock%7D",
        "KNOWN%3A",
        "%E2%80%AEKNOWN",
        "known",
    ];
    let nowhere = [
        "/",
        "/stock/",
        "/nowhere",
        "/stock/KNOWN/extra",
        "/stock/KNOWN/adjustments/",
        "/STOCK",
        "/metrics",
        "/admin/locks",
        "//stock/KNOWN",
    ];
    let mut cases = Vec::new();
    for (name, sku) in refused {
        cases.push(case(format!("SKU: {name}"), get(&format!("/stock/{sku}")), 400, "bad-request"));
        let write = request("PUT", &format!("/stock/{sku}"), &[JSON], br#"{"quantity":5}"#);
        cases.push(case(format!("SKU in a write: {name}"), write, 400, "bad-request"));
    }
    for sku in absent {
        cases.push(case(format!("absent SKU {sku}"), get(&format!("/stock/{sku}")), 404, "not-found"));
    }
    for path in nowhere {
        cases.push(case(format!("no route {path}"), get(path), 404, "not-found"));
    }
    for path in ["/%zz", "/stock/%zz/movements", "/nowhere/%", "/stock/KNOWN?x=%zz", "/stock?%", "/healthz?x=%2"] {
        cases.push(case(format!("no URL {path}"), get(path), 400, "bad-request"));
    }
    let broken = request("POST", "/stock/KNOWN%zz/adjustments", &[JSON], br#"{"delta":1}"#);
    cases.push(case("an adjustment of no URL", broken, 400, "bad-request"));
    cases.push(case("deleting no URL", request("DELETE", "/stock/KNOWN%", &[], b""), 400, "bad-request"));
    cases.push(case("movements of nothing", get("/stock/unknown/movements"), 404, "not-found"));
    let nothing = request("POST", "/stock/unknown/adjustments", &[JSON], br#"{"delta":1}"#);
    cases.push(case("an adjustment of nothing", nothing, 404, "not-found"));
    cases.push(case("deleting nothing", request("DELETE", "/stock/unknown", &[], b""), 404, "not-found"));
    cases
}

fn methods() -> Vec<Case> {
    let long = "M".repeat(1000);
    let mut cases: Vec<_> = [
        ("PATCH", "/stock/KNOWN"),
        ("POST", "/stock/KNOWN"),
        ("PURGE", "/stock/KNOWN"),
        ("TRACE", "/stock/KNOWN"),
        ("QUERY", "/stock/KNOWN"),
        ("get", "/stock/KNOWN"),
        ("OPTIONS", "/stock/KNOWN"),
        (&long, "/stock/KNOWN"),
        ("PUT", "/stock"),
        ("DELETE", "/stock"),
        ("GET", "/stock/KNOWN/adjustments"),
        ("PUT", "/stock/KNOWN/adjustments"),
        ("POST", "/stock/KNOWN/movements"),
        ("POST", "/healthz"),
    ]
    .into_iter()
    .map(|(method, path)| {
        case(format!("{method:.10} {path}"), request(method, path, &[], b""), 405, "method-not-allowed")
    })
    .collect();
    let disguised = request("POST", "/stock/KNOWN", &[JSON, b"X-HTTP-Method-Override: DELETE"], b"{}");
    cases.push(case("a disguised DELETE", disguised, 405, "method-not-allowed"));
    cases
}

fn queries() -> Vec<Case> {
    let bad = [
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=abc",
        "limit=",
        "limit=1.5",
        "limit=%2B1",
        "limit=01",
        "limit=1e1",
        "limit=99999999999999999999",
        "limit=1&limit=2",
        "limit=%FF",
        "after=",
        "after=zz",
        "after=7",
        "after=00",
        "after=6d0000000000000001",
        "after=7300",
        "page=2",
        "limit=5&offset=10",
    ];
    let mut cases: Vec<_> = bad
        .into_iter()
        .map(|query| case(format!("?{query}"), get(&format!("/stock?{query}")), 400, "bad-request"))
        .collect();
    for query in ["limit=0", "after=734b", "after=6d01", "x=1"] {
        let path = format!("/stock/KNOWN/movements?{query}");
        cases.push(case(format!("movements ?{query}"), get(&path), 400, "bad-request"));
    }
    cases
}

fn headers() -> Vec<Case> {
    let long = [b"Idempotency-Key: ".as_slice(), &[b'k'; 256]].concat();
    vec![
        case("an empty key", adjust_with(&[b"Idempotency-Key:"]), 400, "bad-request"),
        case("a key of 256", adjust_with(&[&long]), 400, "bad-request"),
        case("a key with a space", adjust_with(&[b"Idempotency-Key: two words"]), 400, "bad-request"),
        case("a key beyond ASCII", adjust_with(&[b"Idempotency-Key: caf\xc3\xa9"]), 400, "bad-request"),
        case("two keys", adjust_with(&[b"Idempotency-Key: a", b"Idempotency-Key: b"]), 400, "bad-request"),
        case("a bare tag", put_with(&[b"If-Match: 7"]), 412, "precondition-failed"),
        case("an open tag", put_with(&[b"If-Match: \"7"]), 412, "precondition-failed"),
        case("no tag", put_with(&[b"If-Match:"]), 412, "precondition-failed"),
        case("a tag and any", put_with(&[b"If-Match: *, \"7\""]), 412, "precondition-failed"),
        case("any, and a tag", put_with(&[b"If-Match: *", b"If-Match: \"7\""]), 412, "precondition-failed"),
        case("a bad If-None-Match", put_with(&[b"If-None-Match: 7"]), 400, "bad-request"),
        case("another version", put_with(&[b"If-Match: \"999999\""]), 412, "precondition-failed"),
        case("a weak version", put_with(&[b"If-Match: W/\"1\""]), 412, "precondition-failed"),
        case("create only", put_with(&[b"If-None-Match: *"]), 412, "precondition-failed"),
        case(
            "replace only",
            request("PUT", "/stock/unknown", &[JSON, b"If-Match: *"], br#"{"quantity":5}"#),
            412,
            "precondition-failed",
        ),
        case(
            "deleting another version",
            request("DELETE", "/stock/KNOWN", &[b"If-Match: \"999999\""], b""),
            412,
            "precondition-failed",
        ),
    ]
}

fn media_types() -> Vec<Case> {
    let body = br#"{"delta":1}"#;
    let send = |headers: &[&[u8]]| request("POST", "/stock/KNOWN/adjustments", headers, body);
    [
        ("none", send(&[])),
        ("text", send(&[b"Content-Type: text/plain"])),
        ("a form", send(&[b"Content-Type: application/x-www-form-urlencoded"])),
        ("XML", send(&[b"Content-Type: application/xml"])),
        ("nearly JSON", send(&[b"Content-Type: application/jsonx"])),
        ("two", send(&[JSON, JSON])),
        ("gzip", send(&[JSON, b"Content-Encoding: gzip"])),
        ("a PUT of text", request("PUT", "/stock/KNOWN", &[b"Content-Type: text/plain"], br#"{"quantity":5}"#)),
    ]
    .map(|(name, request)| case(format!("media type: {name}"), request, 415, "unsupported-media-type"))
    .into()
}

fn malformed() -> Vec<Case> {
    let bodies: [&[u8]; 18] = [
        b"",
        b" ",
        b"{",
        b"nope",
        br#"{"delta":1}}"#,
        br#"{"delta":1} x"#,
        br#"{"delta":1,}"#,
        b"{'delta':1}",
        br#"{"delta":NaN}"#,
        br#"{"delta":Infinity}"#,
        br#"{"delta":undefined}"#,
        br#"{"delta":01}"#,
        br#"{"delta":+1}"#,
        br#"{"delta":0x1}"#,
        br#"{"delta":.5}"#,
        br#"{"delta":"x" "#,
        b"{\"delta\":1,\"reference\":\"\xff\"}",
        b"\xef\xbb\xbf{\"delta\":1}",
    ];
    bodies
        .into_iter()
        .map(|body| case(format!("body {}", body.escape_ascii()), adjust(body), 400, "bad-request"))
        .collect()
}

fn not_allowed() -> Vec<Case> {
    let digits = format!(r#"{{"delta":{}}}"#, "9".repeat(400));
    let reference = format!(r#"{{"delta":1,"reference":"{}"}}"#, "x".repeat(201));
    let deep = format!(r#"{{"delta":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
    let echo = format!(r#"{{"delta":"{}"}}"#, "y".repeat(60_000));
    let bodies = [
        "null",
        "[]",
        "[1]",
        "[1,null]",
        r#"[1,"x"]"#,
        r#" [{"delta":1}]"#,
        r#"{"delta":[1]}"#,
        r#"{"delta":1,"reference":["x"]}"#,
        "1",
        r#""x""#,
        "{}",
        r#"{"delta":null}"#,
        r#"{"delta":"1"}"#,
        r#"{"delta":1.5}"#,
        r#"{"delta":1e3}"#,
        r#"{"delta":1e999}"#,
        r#"{"delta":0}"#,
        r#"{"delta":-0}"#,
        r#"{"delta":1000000001}"#,
        r#"{"delta":-1000000001}"#,
        r#"{"delta":2147483648}"#,
        r#"{"delta":9223372036854775808}"#,
        r#"{"delta":true}"#,
        r#"{"delta":{}}"#,
        r#"{"delta":1,"delta":2}"#,
        r#"{"delta":1,"quantity":2}"#,
        r#"{"Delta":1}"#,
        r#"{"delta":1,"reference":5}"#,
        r#"{"delta":1,"reference":""}"#,
        r#"{"delta":1,"reference":"a\u0000b"}"#,
        r#"{"delta":1,"reference":"a\nb"}"#,
        r#"{"delta":1,"reference":"\ud800"}"#,
        r#"{"delta":1000000000}"#,
        &digits,
        &reference,
        &deep,
        &echo,
    ];
    let quantities = [
        "null",
        "[]",
        "[1]",
        " [1]",
        "[[1]]",
        r#"[{"quantity":1}]"#,
        r#"{"quantity":[1]}"#,
        r#"{"quantity":{"quantity":1}}"#,
        "1",
        r#""{\"quantity\":1}""#,
        "{}",
        r#"{"quantity":-1}"#,
        r#"{"quantity":1000000001}"#,
        r#"{"quantity":1.5}"#,
        r#"{"quantity":"5"}"#,
        r#"{"quantity":5,"quantity":6}"#,
        r#"{"quantity":5,"version":1}"#,
        r#"{"quantity":18446744073709551616}"#,
    ];
    let adjustments = bodies.map(|body| case(format!("POST {body:.60}"), adjust(body), 422, "unprocessable"));
    let settings = quantities.map(|body| case(format!("PUT {body}"), put(body), 422, "unprocessable"));
    adjustments.into_iter().chain(settings).collect()
}

fn too_large() -> Vec<Case> {
    let mut padded = br#"{"delta":1}"#.to_vec();
    padded.resize(64 * 1024 + 1, b' ');
    let unlocked = request("POST", "/flash/KNOWN/reservations", &[JSON], &padded);
    let mut chunked = request(
        "POST",
        "/stock/KNOWN/adjustments",
        &[JSON, b"Transfer-Encoding: chunked", b"content-length-not: 1"],
        b"",
    );
    for _ in 0..70 {
        chunked.extend_from_slice(b"400\r\n");
        chunked.extend([b' '; 1024]);
        chunked.extend_from_slice(b"\r\n");
    }
    let declared = request("PUT", "/stock/KNOWN", &[JSON, b"Content-Length: 10000000000"], b"{");
    vec![
        case("a byte too many", adjust(&padded), 413, "body-too-large"),
        case("a byte too many, without a lock", unlocked, 413, "body-too-large"),
        case("chunks without end", chunked, 413, "body-too-large"),
        case("10 GB announced", declared, 413, "body-too-large"),
    ]
}

fn others() -> Vec<Case> {
    let slow = request("PUT", "/stock/KNOWN", &[JSON, b"Content-Length: 14"], b"{");
    let unlocked = request("POST", "/flash/KNOWN/reservations", &[JSON, b"Content-Length: 14"], b"{");
    vec![
        case("more than there is", adjust(r#"{"delta":-11}"#), 409, "insufficient-stock"),
        case("a body that never comes", slow, 408, "body-timeout"),
        case("a body that never comes, without a lock", unlocked, 408, "body-timeout"),
    ]
}

/// Words that only the inside of the service uses.
const INTERNAL: [&str; 14] = [
    "sqlx", "postgres", "redis", "select ", "relation", "panick", ".rs", "::", "serde", " at line", "i64", "stockade",
    "unwrap", "struct",
];

async fn send(instance: &Instance, case: &Case) -> Reply {
    let reply = exchange(instance.authority(), &case.request).await;
    let context = format!("{}: {reply:?}", case.name);
    assert_eq!(reply.status, case.status, "{context}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{context}");
    let document = reply.json();
    assert_eq!(document["type"], format!("/problems/{}", case.problem), "{context}");
    assert_eq!(document["status"], case.status, "{context}");
    assert_eq!(document["applied"], false, "{context}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{context}");
    assert_eq!(document["request_id"].as_str(), reply.header("x-request-id"), "{context}");
    assert_eq!(reply.header("allow").is_some(), case.status == 405, "{context}");
    assert!(reply.header("access-control-allow-origin").is_none(), "{context}");
    assert!(reply.body.len() < 1500, "{context}");
    for word in INTERNAL {
        assert!(!reply.body.to_lowercase().contains(word), "{word}: {context}");
    }
    reply
}

#[tokio::test]
async fn bad_input_is_refused_by_name_and_changes_nothing() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    assert_eq!(instance.put("KNOWN", 10).await.status, 201);
    let before = stage.fingerprint().await;
    let cases: Vec<_> =
        [paths(), methods(), queries(), headers(), media_types(), malformed(), not_allowed(), too_large(), others()]
            .into_iter()
            .flatten()
            .collect();
    assert!(cases.len() >= 60, "{}", cases.len());
    let document = Document::of(&instance).await;
    for case in &cases {
        send(&instance, case).await;
        let line = String::from_utf8_lossy(&case.request);
        let [method, path] = line.split(' ').take(2).collect::<Vec<_>>()[..] else { panic!("{}", case.name) };
        document.assert_names(method, path, case.status, case.problem);
        assert_eq!(stage.fingerprint().await, before, "{}", case.name);
    }
    for method in [Method::GET, Method::DELETE] {
        let refused = Answer::to(instance.admin(method, "/admin/locks/stock:%zz")).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (400, "bad-request"), "{refused:?}");
    }
    assert_eq!(instance.get("/stock/KNOWN").await.json()["quantity"], 10);
    assert!(!instance.log().contains("panicked"), "{}", instance.log());
}

#[tokio::test]
async fn odd_skus_are_as_good_as_any() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let skus = [
        "BANK%20CHARGES",
        "gift_0001_20",
        "m",
        "a%2Fb",
        "%2E%2E%2E",
        "caf%C3%A9",
        "cafe%CC%81",
        "%25",
        "%3F%23",
        "%F0%9F%93%A6",
        "%7Bx%7D",
        "a%3Ab",
        "%20padded%20",
    ];
    for (sku, quantity) in skus.iter().zip(1_i64..) {
        let reply = exchange(
            instance.authority(),
            &request("PUT", &format!("/stock/{sku}"), &[JSON], format!(r#"{{"quantity":{quantity}}}"#).as_bytes()),
        )
        .await;
        assert_eq!(reply.status, 201, "{sku}: {reply:?}");
        assert_eq!(reply.header("location"), Some(format!("/stock/{sku}").replace("%2E", ".").as_str()), "{reply:?}");
    }
    for (sku, quantity) in skus.iter().zip(1_i64..) {
        let reply = exchange(instance.authority(), &get(&format!("/stock/{sku}"))).await;
        assert_eq!(reply.json()["quantity"], quantity, "{sku}: {reply:?}");
    }
    assert_eq!(stage.count("select count(*) from stock").await, i64::try_from(skus.len()).unwrap());
}
