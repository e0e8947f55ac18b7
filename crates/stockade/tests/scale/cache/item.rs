//! The rows that the processes of a history read and write, and the record of each write.

use std::pin::Pin;

use sqlx::PgPool;
use stockade::{Cache, postgres::Tx};

use super::record::{Log, What};
use crate::support::Item;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of rows. Their keys are the numbers below this.
pub(super) const KEYS: u8 = 5;

pub(super) const SCHEMA: &str = "
    create table item (key int2 primary key, version int8 not null);
    insert into item select key, 0 from generate_series(0, 4) as key;
    create table written (key int2 not null, version int8 not null);
    create sequence versions;";

pub(super) fn item(key: u8) -> Item {
    Item(key.to_string())
}

/// Loads the version of an item.
pub(super) fn loader(pool: &PgPool) -> impl Fn(Item) -> Loading + Clone + Send + Sync + 'static {
    let pool = pool.clone();
    move |item| {
        let pool = pool.clone();
        Box::pin(async move {
            let select = sqlx::query_scalar("select version from item where key = $1");
            select.bind(item.0.parse::<i16>().unwrap()).fetch_optional(&pool).await
        })
    }
}

type Loading = Pin<Box<dyn Future<Output = Result<Option<i64>, sqlx::Error>> + Send>>;

/// Gives the row a new version and commits. Notes the version before and after the commit.
pub(super) async fn write(mut tx: Tx, cache: &Cache<Item, i64>, log: &Log, key: u8, begin: u64) -> Result<(), Failure> {
    let row = i16::from(key);
    // Take the lock of the row first, so that versions rise in the order of commits.
    sqlx::query("select from item where key = $1 for update").bind(row).execute(&mut *tx).await?;
    let version: i64 =
        sqlx::query_scalar("update item set version = nextval('versions') where key = $1 returning version")
            .bind(row)
            .fetch_one(&mut *tx)
            .await?;
    sqlx::query("insert into written values ($1, $2)").bind(row).bind(version).execute(&mut *tx).await?;
    tx.invalidate(cache, &item(key));
    log.note(What::Committing, key, begin, version);
    tx.commit().await?;
    log.note(What::Acknowledged, key, begin, version);
    Ok(())
}
