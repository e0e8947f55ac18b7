//! The table `stock`.

use serde::Serialize;
use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};

use super::{movement::Line, undecodable};
use crate::domain::{Delta, Quantity, Reference, Sku, Stock};

/// A change of the row `$1` to the quantity `$2` with its line of the ledger, in one statement.
macro_rules! with_its_line {
    ($change:literal) => {
        concat!(
            "with changed as (",
            $change,
            "), line as (
                insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
                select sku, $3::text, $4::bigint, quantity, version, $5::text, $6::bigint from changed
                where $4::bigint is not null
            )
            select sku, quantity, version, updated_at from changed"
        )
    };
}

impl FromRow<'_, PgRow> for Stock {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            sku: Sku::of_row(row.try_get("sku")?).map_err(undecodable)?,
            quantity: Quantity::new(row.try_get("quantity")?).map_err(undecodable)?,
            version: u64::try_from(row.try_get::<i64, _>("version")?).map_err(undecodable)?,
            updated_at: row.try_get("updated_at")?,
        })
    }
}

/// The row of `sku`.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.find"))]
pub async fn find(executor: impl PgExecutor<'_>, sku: &Sku) -> Result<Option<Stock>, sqlx::Error> {
    sqlx::query_as("select sku, quantity, version, updated_at from stock where sku = $1")
        .bind(sku.as_str())
        .fetch_optional(executor)
        .await
}

/// The rows of these SKUs, in any order. A SKU without a row is left out.
pub async fn find_all(executor: impl PgExecutor<'_>, skus: &[Sku]) -> Result<Vec<Stock>, sqlx::Error> {
    match skus {
        [only] => Ok(find(executor, only).await?.into_iter().collect()),
        skus => find_several(executor, skus).await,
    }
}

#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.find_several"))]
async fn find_several(executor: impl PgExecutor<'_>, skus: &[Sku]) -> Result<Vec<Stock>, sqlx::Error> {
    let skus: Vec<_> = skus.iter().map(|sku| sku.as_str().to_owned()).collect();
    sqlx::query_as("select sku, quantity, version, updated_at from stock where sku = any($1)")
        .bind(skus)
        .fetch_all(executor)
        .await
}

/// At most `limit` SKUs, those that changed last first. It looks at the newest lines of the ledger, ten for each SKU
/// and no more than 200,000: an index by version would make each change of a row dearer, and without one this would
/// sort all rows. Of a few SKUs that change all the time it finds these only.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.latest"))]
pub async fn latest(executor: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Sku>, sqlx::Error> {
    const SQL: &str =
        "select sku from (select sku, id from movement order by id desc limit least($1 * 10, 200000)) newest
        group by sku order by max(id) desc limit $1";
    let skus: Vec<String> = sqlx::query_scalar(SQL).bind(limit).fetch_all(executor).await?;
    skus.iter().map(|sku| Sku::of_row(sku).map_err(undecodable)).collect()
}

/// Creates `sku`, which must not exist, and writes the line into the ledger.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.insert"))]
pub async fn insert(
    connection: &mut PgConnection,
    sku: &Sku,
    quantity: Quantity,
    line: &Line<'_>,
) -> Result<Stock, sqlx::Error> {
    const SQL: &str = with_its_line!(
        "insert into stock (sku, quantity) values ($1, $2) returning sku, quantity, version, updated_at"
    );
    change(connection, SQL, sku, quantity, line).await
}

/// Sets the quantity of `sku`, which must exist, gives it the next version, and writes the line into the ledger.
///
/// # Errors
///
/// The error of the database; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.update"))]
pub async fn update(
    connection: &mut PgConnection,
    sku: &Sku,
    quantity: Quantity,
    line: &Line<'_>,
) -> Result<Stock, sqlx::Error> {
    const SQL: &str = with_its_line!(
        "update stock set quantity = $2, version = nextval('stock_version'), updated_at = now()
         where sku = $1
         returning sku, quantity, version, updated_at"
    );
    change(connection, SQL, sku, quantity, line).await
}

/// Does what [`update`] does, for several SKUs. Each comes once. Returns their stock, in any order. A SKU without a row
/// is left out.
pub async fn update_all(
    connection: &mut PgConnection,
    changes: &[(&Sku, Quantity, &Line<'_>)],
) -> Result<Vec<Stock>, sqlx::Error> {
    // The server plans a statement over arrays of one element each time, which takes longer than the statement itself.
    let [(sku, quantity, line)] = changes else { return update_several(connection, changes).await };
    match update(connection, sku, *quantity, line).await {
        Err(sqlx::Error::RowNotFound) => Ok(Vec::new()),
        changed => changed.map(|stock| vec![stock]),
    }
}

#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.update_several"))]
async fn update_several(
    connection: &mut PgConnection,
    changes: &[(&Sku, Quantity, &Line<'_>)],
) -> Result<Vec<Stock>, sqlx::Error> {
    // The SKUs come a second time as a condition, since a join with `unnest` alone reads a table of a few thousand rows
    // as a whole.
    let tokens: Result<Vec<_>, _> = changes.iter().map(|(_, _, line)| i64::try_from(line.fencing_token)).collect();
    sqlx::query_as(
        "with changed as (
             update stock set quantity = wanted.quantity, version = nextval('stock_version'), updated_at = now()
             from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
                 as wanted (sku, quantity, kind, delta, reference, fencing_token)
             where stock.sku = wanted.sku and stock.sku = any($1)
             returning stock.*, wanted.kind, wanted.delta, wanted.reference, wanted.fencing_token
         ), line as (
             insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
             select sku, kind, delta, quantity, version, reference, fencing_token from changed
             where delta is not null
         )
         select sku, quantity, version, updated_at from changed",
    )
    .bind(changes.iter().map(|(sku, _, _)| sku.as_str()).collect::<Vec<_>>())
    .bind(changes.iter().map(|(_, quantity, _)| quantity.get()).collect::<Vec<_>>())
    .bind(changes.iter().map(|(_, _, line)| line.kind.as_str()).collect::<Vec<_>>())
    .bind(changes.iter().map(|(_, _, line)| line.delta.map(Delta::get)).collect::<Vec<_>>())
    .bind(changes.iter().map(|(_, _, line)| line.reference.map(Reference::as_str)).collect::<Vec<_>>())
    .bind(tokens.map_err(undecodable)?)
    .fetch_all(connection)
    .await
}

/// Removes `sku`, which must exist, and writes the line into the ledger. Returns the version that the removal takes.
///
/// # Errors
///
/// The error of the database; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.delete"))]
pub async fn delete(connection: &mut PgConnection, sku: &Sku, line: &Line<'_>) -> Result<u64, sqlx::Error> {
    const SQL: &str = with_its_line!(
        "delete from stock where sku = $1
         returning sku, $2::bigint as quantity, nextval('stock_version') as version, updated_at"
    );
    Ok(change(connection, SQL, sku, Quantity::ZERO, line).await?.version)
}

async fn change(
    connection: &mut PgConnection,
    sql: &'static str,
    sku: &Sku,
    quantity: Quantity,
    line: &Line<'_>,
) -> Result<Stock, sqlx::Error> {
    sqlx::query_as(sql)
        .bind(sku.as_str())
        .bind(quantity.get())
        .bind(line.kind.as_str())
        .bind(line.delta.map(Delta::get))
        .bind(line.reference.map(Reference::as_str))
        .bind(i64::try_from(line.fencing_token).map_err(undecodable)?)
        .fetch_one(connection)
        .await
}

/// At most `limit` rows after the SKU `after`, ordered by the code points of the SKU.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.page"))]
pub async fn page(executor: impl PgExecutor<'_>, after: Option<&Sku>, limit: i64) -> Result<Vec<Stock>, sqlx::Error> {
    // No SKU is the empty text, which sorts before every other.
    let after = after.map_or("", Sku::as_str);
    sqlx::query_as(
        r#"select sku, quantity, version, updated_at from stock where sku > $1 order by sku collate "C" limit $2"#,
    )
    .bind(after)
    .bind(limit)
    .fetch_all(executor)
    .await
}

/// Stock, and the quantities that its last movements left, oldest first.
#[derive(Debug, Serialize)]
pub struct Traced {
    /// The row.
    #[serde(flatten)]
    pub stock: Stock,
    /// One for each movement.
    pub ledger: Vec<i64>,
}

impl FromRow<'_, PgRow> for Traced {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let mut ledger: Vec<i64> = row.try_get("ledger")?;
        ledger.reverse();
        Ok(Self { stock: Stock::from_row(row)?, ledger })
    }
}

/// At most `limit` rows after the SKU `after` that begin with `prefix`, ordered by the code points of the SKU, each
/// with at most `movements` of its last movements.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.search"))]
pub async fn search(
    executor: impl PgExecutor<'_>,
    prefix: &str,
    after: Option<&Sku>,
    limit: i64,
    movements: i64,
) -> Result<Vec<Traced>, sqlx::Error> {
    // No SKU with this prefix comes after it: a SKU has no more characters, and none is greater.
    let last = format!("{prefix}{}", "\u{10ffff}".repeat(Sku::MAX_CHARS));
    sqlx::query_as(
        r#"select sku, quantity, version, updated_at, array(
               select quantity from movement where movement.sku = stock.sku order by id desc limit $5
           ) as ledger
           from stock
           where sku >= $1 and sku <= $2 and sku > $3
           order by sku collate "C"
           limit $4"#,
    )
    .bind(prefix)
    .bind(last)
    .bind(after.map_or("", Sku::as_str))
    .bind(limit)
    .bind(movements)
    .fetch_all(executor)
    .await
}
