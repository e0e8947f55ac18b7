use std::{borrow::Cow, collections::HashMap};

use axum::{
    Router,
    extract::FromRequestParts,
    http::{Method, StatusCode, request::Parts},
    routing::post,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stockade::{Fence, Locks, Resource, resource::Key, route_lock::RouteLock};

use super::support::{Sku, request, send};

async fn key(fence: Fence) -> String {
    fence.key().to_string()
}

fn app(locks: &Locks) -> Router {
    Router::new()
        .route("/by/{sku}", post(key).route_layer(RouteLock::by::<Sku>(locks)))
        .route("/template/{sku}", post(key).route_layer(RouteLock::template(locks, "stock:{sku}")))
        .route("/rest/{*path}", post(key).route_layer(RouteLock::template(locks, "file:{path}")))
        .route("/two/{a}/{b}", post(key).route_layer(RouteLock::template(locks, "pair:{a}:{b}")))
}

#[tokio::test]
async fn no_spelling_of_an_id_reaches_another_key() {
    let locks = Locks::memory();
    let app = app(&locks);
    for (id, expected) in [
        ("85123A", "stock:85123A"),
        ("BANK%20CHARGES", "stock:BANK CHARGES"),
        ("a+b", "stock:a+b"),
        ("a%2Fb", "stock:a/b"),
        ("a%252Fb", "stock:a%252Fb"),
        ("%2e%2e%2Fadmin", "stock:../admin"),
        ("a:b", "stock:a%3Ab"),
        ("a%3Ab", "stock:a%3Ab"),
        ("a%253Ab", "stock:a%253Ab"),
        ("%7Bx%7D", "stock:%7Bx%7D"),
        ("%7d%78%7b", "stock:%7Dx%7B"),
        ("*", "stock:*"),
        ("%5Ba-z%5D", "stock:[a-z]"),
        ("caf%C3%A9", "stock:café"),
        ("%E2%80%AE", "stock:\u{202e}"),
    ] {
        for route in ["by", "template"] {
            let answer = send(&app, request(Method::POST, &format!("/{route}/{id}"))).await;
            assert_eq!((answer.status, answer.text()), (StatusCode::OK, expected), "{route} {id}");
        }
    }
}

#[tokio::test]
async fn what_is_no_value_is_a_bad_request() {
    let locks = Locks::memory();
    let app = app(&locks);
    for id in ["%00", "a%00b", "%0d%0aFLUSHALL%0d%0a", "%7F", "%C2%85", "%ff%fe", "%c0%af"] {
        let answer = send(&app, request(Method::POST, &format!("/template/{id}"))).await;
        assert_eq!(answer.refusal(400, "bad-request")["applied"], false, "{id}");
    }
    assert_eq!(send(&app, request(Method::POST, "/template/")).await.status, 404);
}

#[tokio::test]
async fn a_percent_sign_that_encodes_nothing_names_no_resource() {
    let locks = Locks::memory();
    let app = Router::new().merge(app(&locks)).nest("/of/{outer}", app(&locks));
    for id in ["%zz", "%", "%2", "a%2g", "%25%", "%%32%35"] {
        for path in [format!("/template/{id}"), format!("/two/x/{id}"), format!("/of/{id}/template/x")] {
            let answer = send(&app, request(Method::POST, &path)).await;
            assert_eq!(answer.refusal(400, "bad-request")["applied"], false, "{path}");
        }
    }
    assert_eq!(send(&app, request(Method::POST, "/template/%25zz")).await.text(), "stock:%25zz");
}

#[tokio::test]
async fn placeholders_take_whole_parameters() {
    let locks = Locks::memory();
    let app = app(&locks);
    for (path, expected) in [
        ("/rest/a/b%2Fc", "file:a/b/c"),
        ("/two/x/y", "pair:x:y"),
        ("/two/x%3Ay/z", "pair:x%3Ay:z"),
        ("/two/x/y%3Az", "pair:x:y%3Az"),
    ] {
        assert_eq!(send(&app, request(Method::POST, path)).await.text(), expected);
    }
}

#[tokio::test]
async fn a_template_that_names_no_parameter_of_its_route_is_a_server_error() {
    let locks = Locks::memory();
    let lock = RouteLock::template(&locks, "report:{date}");
    let app = Router::new().route("/reports/{day}", post(key).route_layer(lock));
    send(&app, request(Method::POST, "/reports/7")).await.refusal(500, "internal");
}

#[tokio::test]
async fn a_template_without_placeholders_is_one_resource() {
    let locks = Locks::memory();
    let lock = RouteLock::template(&locks, "settings:global");
    let app = Router::new().route("/settings", post(key).route_layer(lock));
    assert_eq!(send(&app, request(Method::POST, "/settings")).await.text(), "settings:global");
}

#[tokio::test]
async fn a_key_function_sees_the_request() {
    let locks = Locks::memory();
    let lock = RouteLock::try_key(&locks, |parts| {
        let Some(tenant) = parts.headers.get("tenant") else { return Ok(None) };
        let tenant = tenant.to_str().map_err(|_| StatusCode::BAD_REQUEST)?;
        Key::new("tenant", tenant).map(Some).map_err(|_| StatusCode::BAD_REQUEST)
    });
    let text = async |fence: Option<Fence>| fence.map_or("none".to_owned(), |fence| fence.key().to_string());
    let app = Router::new().route("/", post(text).route_layer(lock));
    assert_eq!(send(&app, request(Method::POST, "/")).await.text(), "none");
    for (tenant, status, key) in [("a:b", 200, "tenant:a%3Ab"), ("", 400, "")] {
        let mut request = request(Method::POST, "/");
        request.headers_mut().insert("tenant", tenant.parse().unwrap());
        let answer = send(&app, request).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (status, key));
    }
}

#[tokio::test]
async fn a_thousand_random_values_have_a_thousand_keys() {
    let locks = Locks::memory();
    let app = app(&locks);
    let mut random = StdRng::seed_from_u64(7);
    // The values are short and have few letters, so that values whose keys could collide do come up.
    let alphabet = ['%', ':', '{', '3', 'A', 'a'];
    let mut seen: HashMap<String, (String, String)> = HashMap::new();
    for _ in 0..1000 {
        let mut value = || {
            let length = random.random_range(1..4);
            (0..length).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect::<String>()
        };
        let pair = (value(), value());
        let [a, b] = [&pair.0, &pair.1].map(|value| utf8_percent_encode(value, NON_ALPHANUMERIC));
        let answer = send(&app, request(Method::POST, &format!("/two/{a}/{b}"))).await;
        assert_eq!(answer.status, 200, "{pair:?}");
        let before = seen.insert(answer.text().to_owned(), pair.clone());
        assert!(before.as_ref().is_none_or(|before| *before == pair), "{before:?} and {pair:?} share a key");
    }
}

#[test]
#[should_panic(expected = "`Stock` is not a name")]
fn a_kind_that_no_request_could_be_locked_by_is_refused_at_the_start() {
    struct Loud;
    impl Resource for Loud {
        const KIND: &'static str = "Stock";

        fn id(&self) -> Cow<'_, str> {
            "1".into()
        }
    }
    impl<S: Sync> FromRequestParts<S> for Loud {
        type Rejection = StatusCode;

        async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
            Ok(Self)
        }
    }
    drop(RouteLock::by::<Loud>(&Locks::memory()));
}
