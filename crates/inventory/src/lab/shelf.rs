//! The tables of a scheme, in a schema of its own.

use sqlx::{AssertSqlSafe, PgPool, postgres::PgConnectOptions};

/// Records a sale, on a connection with [`options`].
pub(super) const RECORD: &str = "insert into sold default values";

/// The sales of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// Units at the start.
    pub(crate) units: i64,
    /// Sales that were recorded.
    pub(crate) sold: i64,
    /// Units left.
    pub(crate) left: i64,
}

impl Count {
    /// Sales that left no trace in the stock. Below zero: units that left it without a recorded sale.
    pub(crate) fn lost(self) -> i64 {
        self.sold - (self.units - self.left)
    }

    /// Sales beyond the units at the start.
    pub(crate) fn oversold(self) -> i64 {
        (self.sold - self.units).max(0)
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
    Ok(Count { units, sold, left })
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_sale_without_trace_is_lost_and_one_beyond_the_units_is_oversold() {
        let count = |sold, left| Count { units: 10, sold, left };
        assert_eq!((count(4, 6).lost(), count(4, 6).oversold()), (0, 0));
        assert_eq!((count(12, 3).lost(), count(12, 3).oversold()), (5, 2));
        assert_eq!((count(3, 6).lost(), count(3, 6).oversold()), (-1, 0));
    }
}
