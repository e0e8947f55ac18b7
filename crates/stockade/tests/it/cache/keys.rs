//! Ids as users may send them.

use stockade::{
    cache::{CacheError, Source},
    resource::{Key, KeyError},
};

use super::support::{Database, Loading, get, process, quantity, sku};
use crate::world::World;

/// Each of them tries to be another, to be a key of another kind, or to lie in another slot.
const HOSTILE: [&str; 24] = [
    "a",
    "a:b",
    "a%3Ab",
    "a%253Ab",
    "a;b",
    "{a}",
    "}a{",
    "{}",
    "a{b",
    "a}b",
    "a\nb",
    "a%0Ab",
    "a\r\nb",
    "a\0b",
    "a\u{85}b",
    "a b",
    " a",
    "*",
    "?",
    "stock:a",
    "e:stock:stock:a",
    "}e:stock:stock:a",
    "}i:stock:stock:a",
    "../../a",
];

#[tokio::test]
async fn no_id_reaches_the_value_of_another_or_leaves_its_slot() {
    let server = World::start().await;
    let rows: Vec<_> = HOSTILE.into_iter().zip(1..).collect();
    let database = Database::with(&rows);
    let stocks = process(&server).await.on(&database).await;
    let one_by_one = async |source: Source| {
        for (id, row) in &rows {
            let found = get(&stocks, id).await;
            assert_eq!((quantity(&found), found.info.source), (Some(*row), source), "{id:?}");
        }
    };
    one_by_one(Source::Load).await;
    one_by_one(Source::Redis).await;
    let keys: Vec<_> = rows.iter().map(|(id, _)| sku(id)).collect();
    let together: Vec<_> = stocks.get_many(&keys).await.into_iter().map(|found| quantity(&found.unwrap())).collect();
    assert_eq!(together, rows.iter().map(|(_, row)| Some(*row)).collect::<Vec<_>>());

    let entries = server.command(&["KEYS", "*e:stock:stock:*"]).await.unwrap();
    let entries: Vec<_> = entries.lines().collect();
    assert_eq!(entries.len(), rows.len(), "{entries:?}");
    for key in &entries {
        // The first braces name the slot; with no other ones, nothing in an id does.
        assert_eq!((key.matches('{').count(), key.matches('}').count()), (1, 1), "{key}");
        assert!(key.starts_with("shop:v1:{") && !key.contains(char::is_control), "{key:?}");
    }

    for (i, (id, row)) in rows.iter().enumerate() {
        database.write(id, Some(row + 1000));
        stocks.invalidate(&sku(id)).await.unwrap();
        let next = rows[(i + 1) % rows.len()].0;
        assert_eq!(get(&stocks, next).await.info.source, Source::Redis, "{id:?} is not {next:?}");
        assert_eq!(quantity(&get(&stocks, id).await), Some(row + 1000), "{id:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn an_id_without_end_is_refused_before_anything_is_sent() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let keys = server.command(&["DBSIZE"]).await.unwrap();
    let refused = |error: CacheError| match error {
        CacheError::Key(error) => error.to_string(),
        error => panic!("{error:?}"),
    };
    for (id, remedy) in
        [("x".repeat(10 << 10), "use a shorter id"), (String::new(), "needs an id"), (":".repeat(200), "shorter")]
    {
        let key = sku(&id);
        let errors = [
            stocks.get(&key).await.err(),
            stocks.reload(&key).await.err(),
            stocks.invalidate(&key).await.err(),
            stocks.get_many(&[sku("a"), key]).await.pop().and_then(Result::err),
        ];
        for error in errors {
            let error = refused(error.unwrap());
            assert!(error.contains(remedy), "{error}");
        }
    }
    let long = Key::new("stock", &"x".repeat(Key::MAX_LEN));
    assert!(matches!(long, Err(KeyError::TooLong { .. })));
    assert_eq!((server.command(&["DBSIZE"]).await.unwrap(), database.loads()), (keys, 1));
    let stats = stocks.stats();
    assert_eq!((stats.error, stats.fetching), (9, 0), "{stats:?}");
    server.end().await;
}
