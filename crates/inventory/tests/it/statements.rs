//! Every statement of the service on a migrated database: what it binds fits the columns, and its rows can be read.

use std::time::Duration;

use inventory::{
    db::{
        idempotency::{self, Stored},
        movement::{self, Entry},
        stock,
    },
    domain::{Delta, Kind, Quantity, Reference, Sku},
};
use sqlx::{PgPool, pool::PoolConnection, postgres::Postgres};
use stockade_testbed::PostgresServer;

use crate::stock_db::{execute, migrated};

async fn database(server: &PostgresServer) -> (PgPool, PoolConnection<Postgres>) {
    let pool = migrated(server, "inventory").await;
    let connection = pool.acquire().await.unwrap();
    (pool, connection)
}

fn sku(text: &str) -> Sku {
    Sku::new(text).unwrap()
}

fn quantity(value: i64) -> Quantity {
    Quantity::new(value).unwrap()
}

#[tokio::test]
async fn the_statements_on_stock_fit_its_table() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, mut connection) = database(&server).await;

    assert_eq!(stock::find(&pool, &sku("A")).await.unwrap(), None);
    let created = stock::insert(&mut connection, &sku("A"), quantity(3)).await.unwrap();
    let other = stock::insert(&mut connection, &sku("b"), quantity(0)).await.unwrap();
    let updated = stock::update(&mut connection, &sku("A"), quantity(1_000_000_000)).await.unwrap();
    assert!(created.version < other.version && other.version < updated.version, "{created:?} {other:?} {updated:?}");
    assert_eq!((updated.sku.as_str(), updated.quantity.get()), ("A", 1_000_000_000));

    assert_eq!(stock::find(&pool, &sku("A")).await.unwrap(), Some(updated.clone()));
    let mut found = stock::find_all(&pool, &[sku("b"), sku("none"), sku("A")]).await.unwrap();
    found.sort_by_key(|stock| stock.version);
    assert_eq!(found, [other.clone(), updated.clone()]);
    assert_eq!(stock::latest(&pool, 1).await.unwrap(), [sku("A")]);
    assert_eq!(stock::page(&pool, None, 9).await.unwrap(), [updated.clone(), other.clone()]);
    assert_eq!(stock::page(&pool, Some(&sku("A")), 9).await.unwrap(), [other]);

    assert!(stock::delete(&mut connection, &sku("A")).await.unwrap() > updated.version);
    assert_eq!(stock::find(&pool, &sku("A")).await.unwrap(), None);
}

#[tokio::test]
async fn the_statements_on_the_ledger_fit_its_table() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, mut connection) = database(&server).await;
    let reference = Reference::new("order 7".to_owned()).unwrap();
    let mut write = async |delta, reference, version| {
        let (sku, delta, quantity) = (&sku("A"), Delta::new(delta).unwrap(), quantity(5));
        let entry = Entry { sku, kind: Kind::Adjustment, delta, quantity, version, reference, fencing_token: 9 };
        movement::insert(&mut connection, &entry).await.unwrap();
    };
    write(5, None, 1).await;
    write(-4, Some(&reference), 2).await;

    let lines = movement::page(&pool, &sku("A"), None, 9).await.unwrap();
    let [newer, older] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((newer.delta, newer.reference.as_deref(), newer.fencing_token), (-4, Some("order 7"), Some(9)));
    assert_eq!((older.kind.as_str(), older.quantity, older.version, &older.reference), ("adjustment", 5, 1, &None));
    assert_eq!(movement::page(&pool, &sku("A"), Some(newer.id), 9).await.unwrap(), lines[1..]);
}

#[tokio::test]
async fn the_statements_on_kept_answers_fit_their_table() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, mut connection) = database(&server).await;
    let answer = |status| Stored { fingerprint: [7; 32], status, body: "{}".to_owned() };
    let ttl = Duration::from_secs(3_600);

    assert_eq!(idempotency::find(&mut connection, "key").await.unwrap(), None);
    assert!(idempotency::insert(&mut connection, "key", &answer(200), ttl).await.unwrap());
    assert!(!idempotency::insert(&mut connection, "key", &answer(409), ttl).await.unwrap(), "the first answer stays");
    assert_eq!(idempotency::find(&mut connection, "key").await.unwrap(), Some(answer(200)));

    assert_eq!(idempotency::sweep(&pool, 9).await.unwrap(), 0);
    execute(&pool, "update idempotency set expires_at = now() - interval '1 s'").await;
    assert_eq!(idempotency::find(&mut connection, "key").await.unwrap(), None);
    assert!(idempotency::insert(&mut connection, "key", &answer(409), ttl).await.unwrap(), "an expired one gives way");
    execute(&pool, "update idempotency set expires_at = now() - interval '1 s'").await;
    assert_eq!(idempotency::sweep(&pool, 9).await.unwrap(), 1);
}
