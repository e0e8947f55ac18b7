//! Every statement of the service on a migrated database: its parameters fit the columns, and its rows can be read.

use std::{collections::HashMap, time::Duration};

use inventory::{
    db::{
        flash_reservation,
        idempotency::{self, Stored},
        movement::{self, Line},
        sku_filter, stock,
    },
    domain::{Delta, Kind, Quantity, Reference, Sku},
    flash::SaleId,
};
use sqlx::{PgPool, pool::PoolConnection, postgres::Postgres};
use stockade_testbed::PostgresServer;

use crate::{
    stage::until,
    stock_db::{execute, migrated},
};

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
    let line = Line { kind: Kind::Set, delta: None, reference: None, fencing_token: 9 };
    let created = stock::insert(&mut connection, &sku("A"), quantity(3), &line).await.unwrap();
    let other = stock::insert(&mut connection, &sku("b"), quantity(0), &line).await.unwrap();
    let updated = stock::update(&mut connection, &sku("A"), quantity(1_000_000_000), &line).await.unwrap();
    assert!(created.version < other.version && other.version < updated.version, "{created:?} {other:?} {updated:?}");
    assert_eq!((updated.sku.as_str(), updated.quantity.get()), ("A", 1_000_000_000));

    assert_eq!(stock::find(&pool, &sku("A")).await.unwrap(), Some(updated.clone()));
    let mut found = stock::find_all(&pool, &[sku("b"), sku("none"), sku("A")]).await.unwrap();
    found.sort_by_key(|stock| stock.version);
    assert_eq!(found, [other.clone(), updated.clone()]);
    assert_eq!(stock::page(&pool, None, 9).await.unwrap(), [updated.clone(), other.clone()]);
    assert_eq!(stock::page(&pool, Some(&sku("A")), 9).await.unwrap(), [other]);

    assert!(stock::delete(&mut connection, &sku("A"), &line).await.unwrap() > updated.version);
    assert_eq!(stock::find(&pool, &sku("A")).await.unwrap(), None);
    for gone in [
        stock::update(&mut connection, &sku("A"), quantity(1), &line).await.map(drop),
        stock::delete(&mut connection, &sku("A"), &line).await.map(drop),
    ] {
        assert!(matches!(gone, Err(sqlx::Error::RowNotFound)), "{gone:?}");
    }
    assert!(movement::page(&pool, &sku("A"), None, 9).await.unwrap().is_empty(), "a change by nothing has no line");
}

#[tokio::test]
async fn the_statements_on_the_ledger_fit_its_table() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, mut connection) = database(&server).await;
    let reference = Reference::try_from("order 7".to_owned()).unwrap();
    let line = |kind, delta, reference| Line { kind, delta: Delta::new(delta).ok(), reference, fencing_token: 9 };
    let set = line(Kind::Set, 5, None);
    let created = stock::insert(&mut connection, &sku("A"), quantity(5), &set).await.unwrap();
    let adjusted = line(Kind::Adjustment, -4, Some(&reference));
    let changed = stock::update(&mut connection, &sku("A"), quantity(1), &adjusted).await.unwrap();
    let removed = stock::delete(&mut connection, &sku("A"), &line(Kind::Delete, -1, None)).await.unwrap();
    // These have lines of other SKUs.
    for other in ["B", "C"] {
        stock::insert(&mut connection, &sku(other), quantity(5), &set).await.unwrap();
    }
    let same = line(Kind::Adjustment, 0, None);
    let (a, b, c) = (sku("A"), sku("B"), sku("C"));
    let changes = [(&a, quantity(7), &adjusted), (&c, quantity(5), &same), (&b, quantity(1), &adjusted)];
    let mut at_once = stock::update_all(&mut connection, &changes).await.unwrap();
    at_once.sort_by(|one, other| one.sku.as_str().cmp(other.sku.as_str()));
    assert_eq!(at_once.iter().map(|stock| stock.quantity.get()).collect::<Vec<_>>(), [1, 5], "A is gone");
    assert_eq!(movement::page(&pool, &c, None, 9).await.unwrap().len(), 1, "a change by nothing has no line");
    let of_b = &movement::page(&pool, &b, None, 9).await.unwrap()[0];
    assert_eq!((of_b.kind.as_str(), of_b.delta, of_b.quantity), ("adjustment", -4, 1));
    assert_eq!((of_b.reference.as_deref(), of_b.fencing_token), (Some("order 7"), Some(9)));
    assert_eq!(u64::try_from(of_b.version).unwrap(), at_once[0].version);
    assert_eq!(stock::latest(&pool, 2).await.unwrap(), [b, c], "those that changed last, each once");

    let lines = movement::page(&pool, &sku("A"), None, 9).await.unwrap();
    let versions = lines.iter().map(|line| u64::try_from(line.version).unwrap()).collect::<Vec<_>>();
    assert_eq!(versions, [removed, changed.version, created.version]);
    let [gone, newer, older] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((gone.kind.as_str(), gone.delta, gone.quantity), ("delete", -1, 0));
    assert_eq!(newer.quantity, 1);
    assert_eq!((newer.delta, newer.reference.as_deref(), newer.fencing_token), (-4, Some("order 7"), Some(9)));
    assert_eq!((older.kind.as_str(), older.quantity, &older.reference), ("set", 5, &None));
    assert_eq!(movement::page(&pool, &sku("A"), Some(newer.id), 9).await.unwrap(), lines[2..]);
}

#[tokio::test]
async fn the_statements_on_kept_answers_fit_their_table() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, mut connection) = database(&server).await;
    let answer = |status| Stored { fingerprint: [7; 32], status, body: "{}".to_owned() };
    let ttl = Duration::from_secs(3_600);

    assert_eq!(idempotency::find(&mut connection, &["key"]).await.unwrap(), HashMap::new());
    assert!(idempotency::insert(&mut connection, &[("key", &answer(200))], ttl).await.unwrap());
    assert!(
        !idempotency::insert(&mut connection, &[("key", &answer(409))], ttl).await.unwrap(),
        "the first answer stays"
    );
    assert_eq!(idempotency::find(&mut connection, &["key"]).await.unwrap(), [("key".to_owned(), answer(200))].into());

    assert_eq!(idempotency::sweep(&pool, 9).await.unwrap(), 0);
    execute(&pool, "update idempotency set expires_at = now() - interval '1 s'").await;
    assert_eq!(idempotency::find(&mut connection, &["key"]).await.unwrap(), HashMap::new());
    let (new, other) = (answer(409), answer(200));
    let both = [("key", &new), ("other", &other)];
    assert!(idempotency::insert(&mut connection, &both, ttl).await.unwrap(), "an expired one gives way");
    execute(&pool, "update idempotency set expires_at = now() - interval '1 s'").await;
    assert_eq!(idempotency::sweep(&pool, 9).await.unwrap(), 2);
}

#[tokio::test]
async fn a_filter_is_announced_once_nobody_creates_stock_without_telling_it() {
    let server = PostgresServer::start().await.unwrap();
    let (pool, _connection) = database(&server).await;
    let mut creating = pool.begin().await.unwrap();
    assert!(!sku_filter::is_announced(&mut creating).await.unwrap());
    let waits = async {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        until("the announcement waits", async || {
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool).await.unwrap() == 1
        })
        .await;
        creating.commit().await.unwrap();
    };
    let (announced, ()) = tokio::join!(sku_filter::announce(&pool), waits);
    announced.unwrap();
    sku_filter::announce(&pool).await.unwrap();
    let mut creating = pool.begin().await.unwrap();
    assert!(sku_filter::is_announced(&mut creating).await.unwrap());
}

#[tokio::test]
async fn a_page_of_a_flash_sale_reads_no_reservation_of_another_sale() {
    const SALES: &str = "insert into flash_sale (sku, opened, per_customer, ends_at, stored)
            select 'S' || n, 1000000, 5, now(), 0 from generate_series(1, 10) n;
        insert into flash_reservation (id, sale, customer, quantity, stored)
            select md5(id || '-' || n), id, 'ann', 1, true from flash_sale, generate_series(1, 1000) n;
        analyze flash_reservation";
    const READ: &str = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables
        where relname = 'flash_reservation'";
    let server = PostgresServer::start().await.unwrap();
    let (pool, _connection) = database(&server).await;
    execute(&pool, SALES).await;
    let last: i64 = sqlx::query_scalar("select max(id) from flash_sale").fetch_one(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(flash_reservation::page(&mut *tx, SaleId(last), "", 100).await.unwrap().len(), 100);
    let read: i64 = sqlx::query_scalar(READ).fetch_one(&mut *tx).await.unwrap();
    assert!(read < 110, "{read} reservations were read to find a hundred");
}
