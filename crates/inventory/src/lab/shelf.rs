//! The tables of a scheme, in a schema of its own.

use serde::Serialize;
use sqlx::{AssertSqlSafe, PgPool, postgres::PgConnectOptions};

/// Records a sale, on a connection with [`options`].
pub(super) const RECORD: &str = "insert into sold default values";

/// The sales of a scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// Units at the start.
    pub(crate) units: i64,
    /// Sales that were recorded.
    pub(crate) sold: i64,
    /// Units left.
    #[serde(skip)]
    pub(crate) left: i64,
    /// Sales that left no trace in the stock. Below zero: units that left it without a recorded sale.
    pub(crate) lost: i64,
    /// Sales beyond the units at the start.
    pub(crate) oversold: i64,
}

impl Count {
    pub(crate) fn new(units: i64, sold: i64, left: i64) -> Self {
        Self { units, sold, left, lost: sold - (units - left), oversold: (sold - units).max(0) }
    }
}

/// The schema of a scheme.
pub(super) fn schema(name: &str) -> String {
    format!("\"lab-{name}\"")
}

/// Connections that find the tables of the scheme without its schema.
pub(super) fn options(connect: PgConnectOptions, name: &str) -> PgConnectOptions {
    connect.options([("search_path", schema(name))])
}

/// Sets the stock to so many units and deletes the recorded sales, in one transaction. Makes the tables if need be, one
/// caller at a time.
pub(super) async fn set(pool: &PgPool, name: &str, units: i64) -> Result<(), sqlx::Error> {
    let schema = schema(name);
    let sql = format!(
        "set local client_min_messages = warning;
         select pg_advisory_xact_lock(hashtext('inventory lab'));
         create schema if not exists {schema};
         create table if not exists {schema}.stock
             (quantity bigint not null, version bigint not null default 0, units bigint not null)
             with (fillfactor = 10);
         create table if not exists {schema}.sold
             (id bigint generated always as identity primary key, at timestamptz not null default now());
         truncate {schema}.stock, {schema}.sold;
         insert into {schema}.stock (quantity, units) values ({units}, {units})"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
    Ok(())
}

/// The sales of a scheme, by its tables.
pub(super) async fn count(pool: &PgPool, name: &str) -> Result<Count, sqlx::Error> {
    let schema = schema(name);
    let sql = format!("select units, (select count(*) from {schema}.sold), quantity from {schema}.stock");
    let (units, sold, left) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(pool).await?;
    Ok(Count::new(units, sold, left))
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_sale_without_trace_is_lost_and_one_beyond_the_units_is_oversold() {
        for (sold, left, lost, oversold) in [(4, 6, 0, 0), (12, 3, 5, 2), (3, 6, -1, 0)] {
            let count = Count::new(10, sold, left);
            assert_eq!((count.lost, count.oversold), (lost, oversold));
        }
    }
}
