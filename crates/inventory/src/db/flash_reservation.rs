//! The table `flash_reservation`.

use std::collections::HashMap;

use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};

use crate::flash::{Reservation, SaleId};

/// A row.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The reservation.
    pub id: String,
    /// By whom.
    pub customer: String,
    /// Of how many units.
    pub quantity: i64,
    /// False: rejected.
    pub stored: bool,
}

impl FromRow<'_, PgRow> for Stored {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            customer: row.try_get("customer")?,
            quantity: row.try_get("quantity")?,
            stored: row.try_get("stored")?,
        })
    }
}

/// Of these ids, those that have a row, and whether they are stored rather than rejected.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.known"))]
pub async fn known(executor: impl PgExecutor<'_>, ids: &[&str]) -> Result<HashMap<String, bool>, sqlx::Error> {
    // language=PostgreSQL
    let rows: Vec<(String, bool)> = sqlx::query_as("select id, stored from flash_reservation where id = any($1)")
        .bind(ids)
        .fetch_all(executor)
        .await?;
    Ok(rows.into_iter().collect())
}

/// The reservation `id`.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.find"))]
pub async fn find(executor: impl PgExecutor<'_>, id: &str) -> Result<Option<Stored>, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as("select id, customer, quantity, stored from flash_reservation where id = $1")
        .bind(id)
        .fetch_optional(executor)
        .await
}

/// At most `limit` reservations of a sale whose ids come after `after`, by id.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.page"))]
pub async fn page(
    executor: impl PgExecutor<'_>,
    sale: SaleId,
    after: &str,
    limit: i64,
) -> Result<Vec<Stored>, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as(
        "select id, customer, quantity, stored from flash_reservation
         where sale = $1 and id > $2 order by id limit $3",
    )
    .bind(sale.0)
    .bind(after)
    .bind(limit)
    .fetch_all(executor)
    .await
}

/// Stores these and counts their units, if the sale is not closed and they don't exceed what was opened: all or none.
/// Returns whether they are stored.
///
/// # Errors
///
/// Whatever the database answers, such as that one of the ids has a row already.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.store"))]
pub async fn store(
    connection: &mut PgConnection,
    sale: SaleId,
    reservations: &[&Reservation],
) -> Result<bool, sqlx::Error> {
    let units: i64 = reservations.iter().map(|reservation| reservation.quantity).sum();
    let (ids, customers, quantities) = columns(reservations);
    // language=PostgreSQL
    let stored = sqlx::query(
        "with room as (
             update flash_sale set stored = stored + $2
             where id = $1 and closed_at is null and stored + $2 <= opened
             returning id
         )
         insert into flash_reservation (id, sale, customer, quantity, stored)
         select new.id, room.id, new.customer, new.quantity, true
         from room, unnest($3::text[], $4::text[], $5::bigint[]) as new (id, customer, quantity)",
    )
    .bind(sale.0)
    .bind(units)
    .bind(ids)
    .bind(customers)
    .bind(quantities)
    .execute(connection)
    .await?;
    Ok(stored.rows_affected() > 0 || reservations.is_empty())
}

/// Keeps these as rejected.
///
/// # Errors
///
/// Whatever the database answers, such as that one of the ids has a row already.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.reject"))]
pub async fn reject(
    connection: &mut PgConnection,
    sale: SaleId,
    reservations: &[&Reservation],
) -> Result<(), sqlx::Error> {
    let (ids, customers, quantities) = columns(reservations);
    // language=PostgreSQL
    sqlx::query(
        "insert into flash_reservation (id, sale, customer, quantity, stored)
         select new.id, $1, new.customer, new.quantity, false
         from unnest($2::text[], $3::text[], $4::bigint[]) as new (id, customer, quantity)",
    )
    .bind(sale.0)
    .bind(ids)
    .bind(customers)
    .bind(quantities)
    .execute(connection)
    .await?;
    Ok(())
}

fn columns<'a>(reservations: &[&'a Reservation]) -> (Vec<&'a str>, Vec<&'a str>, Vec<i64>) {
    let ids = reservations.iter().map(|reservation| reservation.id.as_str()).collect();
    let customers = reservations.iter().map(|reservation| reservation.customer.as_str()).collect();
    (ids, customers, reservations.iter().map(|reservation| reservation.quantity).collect())
}
