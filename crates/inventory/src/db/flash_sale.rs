//! The table `flash_sale`.

use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};
use time::OffsetDateTime;

use super::undecodable;
use crate::{
    domain::{Sku, Units},
    flash::{Sale, SaleId, Stage},
};

impl FromRow<'_, PgRow> for Sale {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let stage = match (row.try_get("closing")?, row.try_get::<Option<OffsetDateTime>, _>("closed_at")?) {
            (_, Some(_)) => Stage::Closed,
            (true, None) => Stage::Closing,
            (false, None) => Stage::Open,
        };
        Ok(Self {
            id: SaleId(row.try_get("id")?),
            sku: Sku::of_row(row.try_get("sku")?).map_err(undecodable)?,
            opened: row.try_get("opened")?,
            per_customer: row.try_get("per_customer")?,
            ends_at: row.try_get("ends_at")?,
            generation: row.try_get("generation")?,
            stored: row.try_get("stored")?,
            stage,
        })
    }
}

/// Puts the columns that every statement here returns between two texts.
macro_rules! sale {
    ($before:literal, $after:literal) => {
        concat!($before, " id, sku, opened, per_customer, ends_at, generation, stored, closing, closed_at ", $after)
    };
}

/// Opens a sale of `sku`. Another sale of it must not be open.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.insert"))]
pub async fn insert(
    connection: &mut PgConnection,
    sku: &Sku,
    opened: Units,
    per_customer: Units,
    ends_at: OffsetDateTime,
) -> Result<Sale, sqlx::Error> {
    const SQL: &str =
        sale!("insert into flash_sale (sku, opened, per_customer, ends_at) values ($1, $2, $3, $4) returning", "");
    sqlx::query_as(SQL)
        .bind(sku.as_str())
        .bind(opened.get())
        .bind(per_customer.get())
        .bind(ends_at)
        .fetch_one(connection)
        .await
}

/// The newest sale of `sku`.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.newest"))]
pub async fn newest(executor: impl PgExecutor<'_>, sku: &Sku) -> Result<Option<Sale>, sqlx::Error> {
    const SQL: &str = sale!("select", "from flash_sale where sku = $1 order by id desc limit 1");
    sqlx::query_as(SQL).bind(sku.as_str()).fetch_optional(executor).await
}

/// The sale `id`, which exists.
///
/// # Errors
///
/// The error of the database; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.find"))]
pub async fn find(executor: impl PgExecutor<'_>, id: SaleId) -> Result<Sale, sqlx::Error> {
    const SQL: &str = sale!("select", "from flash_sale where id = $1");
    sqlx::query_as(SQL).bind(id.0).fetch_one(executor).await
}

/// All sales that are not closed, oldest first.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.unclosed"))]
pub async fn unclosed(executor: impl PgExecutor<'_>) -> Result<Vec<Sale>, sqlx::Error> {
    const SQL: &str = sale!("select", "from flash_sale where closed_at is null order by id");
    sqlx::query_as(SQL).fetch_all(executor).await
}

/// Begins to close the open sale of `sku`, and returns the sale. It also returns a sale that is closing already.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.begin_closing"))]
pub async fn begin_closing(executor: impl PgExecutor<'_>, sku: &Sku) -> Result<Option<Sale>, sqlx::Error> {
    const SQL: &str = sale!("update flash_sale set closing = true where sku = $1 and closed_at is null returning", "");
    sqlx::query_as(SQL).bind(sku.as_str()).fetch_optional(executor).await
}

/// Begins to close an open sale. Returns whether it was open.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.close_again"))]
pub async fn close_again(executor: impl PgExecutor<'_>, id: SaleId) -> Result<bool, sqlx::Error> {
    sqlx::query("update flash_sale set closing = true where id = $1 and not closing and closed_at is null")
        .bind(id.0)
        .execute(executor)
        .await
        .map(|done| done.rows_affected() > 0)
}

/// Closes a sale that is closing; `None` when somebody else has closed it.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.close"))]
pub async fn close(connection: &mut PgConnection, id: SaleId) -> Result<Option<Sale>, sqlx::Error> {
    const SQL: &str =
        sale!("update flash_sale set closed_at = now() where id = $1 and closing and closed_at is null returning", "");
    sqlx::query_as(SQL).bind(id.0).fetch_optional(connection).await
}

/// The sale as it is, its row locked until the end of the transaction: statements after this one see everything that
/// was stored before.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.lock"))]
pub async fn lock(connection: &mut PgConnection, id: SaleId) -> Result<Option<Sale>, sqlx::Error> {
    const SQL: &str = sale!("select", "from flash_sale where id = $1 for update");
    sqlx::query_as(SQL).bind(id.0).fetch_optional(connection).await
}

/// Begins the next generation of an open sale: reservations of this generation are not stored from now on. `None` when
/// somebody else began one, or the sale is not open any more.
///
/// It comes after `last` too, the generation of the last counter. If Postgres has lost that one, reservations were
/// rejected under it, and a second counter with its number would believe these rejections.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_sale.next_generation"))]
pub async fn next_generation(
    executor: impl PgExecutor<'_>,
    sale: &Sale,
    last: i64,
) -> Result<Option<Sale>, sqlx::Error> {
    const SQL: &str = sale!(
        "update flash_sale set generation = greatest(generation, $3) + 1
         where id = $1 and generation = $2 and not closing and closed_at is null
         returning",
        ""
    );
    sqlx::query_as(SQL).bind(sale.id.0).bind(sale.generation).bind(last).fetch_optional(executor).await
}
