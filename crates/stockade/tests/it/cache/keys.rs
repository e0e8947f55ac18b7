//! Ids as hostile users may send them.

use stockade::cache::{CacheError, Source};

use super::support::{Database, Loading, eventually, get, process, quantity, sku};
use crate::world::World;

/// Ids that try to be equal to another id, to be a key of another kind, or to choose their slot.
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
        // The first braces name the slot. There are no other braces, so an id can't choose the slot.
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
async fn an_id_that_is_empty_is_refused_before_anything_is_sent() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let keys = server.command(&["DBSIZE"]).await.unwrap();
    let empty = sku("");
    let errors = [
        stocks.get(&empty).await.err(),
        stocks.invalidate(&empty).await.err(),
        stocks.get_many(&[sku("a"), empty]).await.pop().and_then(Result::err),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(&error, CacheError::Key(error) if error.to_string().contains("needs an id")), "{error:?}");
    }
    assert_eq!((server.command(&["DBSIZE"]).await.unwrap(), database.loads()), (keys, 1));
    let stats = stocks.stats();
    assert_eq!((stats.error, stats.fetching), (2, 0), "{stats:?}");
    server.end().await;
}

#[tokio::test]
async fn ids_of_any_length_are_cached_each_for_itself_under_short_keys() {
    let server = World::start().await;
    // Ids that are over the limit by themselves or when encoded, and that differ only in their ends.
    let long = "x".repeat(10 << 10);
    let ids = [format!("{long}1"), format!("{long}2"), ":".repeat(200), ":".repeat(201)];
    let rows: Vec<_> = ids.iter().map(String::as_str).zip(1..).collect();
    let database = Database::with(&rows);
    let (one, two) =
        (process(&server).await.on(&database).await, process(&server).await.local(1 << 20).on(&database).await);
    for (id, row) in &rows {
        assert_eq!(quantity(&get(&one, id).await), Some(*row));
        let found = get(&two, id).await;
        assert_eq!((quantity(&found), found.info.source), (Some(*row), Source::Redis));
        assert_eq!(get(&two, id).await.info.source, Source::Local);
    }
    let keys: Vec<_> = ids.iter().map(|id| sku(id)).collect();
    let together: Vec<_> = one.get_many(&keys).await.into_iter().map(|found| quantity(&found.unwrap())).collect();
    assert_eq!(together, [Some(1), Some(2), Some(3), Some(4)]);
    let entries = server.command(&["KEYS", "*e:stock:stock:*"]).await.unwrap();
    assert_eq!(entries.lines().count(), 4, "{entries}");
    assert!(entries.lines().all(|key| key.len() < 128), "{entries}");

    database.write(&ids[0], Some(100));
    one.invalidate(&sku(&ids[0])).await.unwrap();
    eventually("the other process has heard of it", || async { quantity(&get(&two, &ids[0]).await) == Some(100) })
        .await;
    assert_eq!(quantity(&get(&two, &ids[1]).await), Some(2));
    assert_eq!(one.key(&sku(&ids[2])).unwrap().to_string(), format!("stock:{}", "%3A".repeat(200)));
    server.end().await;
}
