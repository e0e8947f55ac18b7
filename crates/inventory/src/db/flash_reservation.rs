//! The table `flash_reservation`.

use std::collections::HashMap;

use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};

use crate::{
    domain::Sku,
    flash::{Reservation, SaleId},
};

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The reservation.
    pub id: String,
    /// The customer.
    pub customer: String,
    /// The units.
    pub quantity: i64,
    /// Whether it is stored; if not, it is rejected.
    pub stored: bool,
    /// The generation of the counter that let it in.
    pub generation: i64,
}

/// The decision about a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Stored rather than rejected.
    pub stored: bool,
    /// The generation of the counter that let it in.
    pub generation: i64,
}

impl Decided {
    /// Whether the decision holds for a request that this counter let in. A rejection under an earlier one does not.
    #[must_use]
    pub fn stands(self, generation: i64) -> bool {
        self.stored || self.generation >= generation
    }
}

impl Stored {
    /// The decision about the reservation.
    #[must_use]
    pub fn decided(&self) -> Decided {
        Decided { stored: self.stored, generation: self.generation }
    }
}

impl FromRow<'_, PgRow> for Stored {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            customer: row.try_get("customer")?,
            quantity: row.try_get("quantity")?,
            stored: row.try_get("stored")?,
            generation: row.try_get("generation")?,
        })
    }
}

/// The decision about each of these ids that has a row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.known"))]
pub async fn known(executor: impl PgExecutor<'_>, ids: &[&str]) -> Result<HashMap<String, Decided>, sqlx::Error> {
    let rows: Vec<(String, bool, i64)> =
        sqlx::query_as("select id, stored, generation from flash_reservation where id = any($1)")
            .bind(ids)
            .fetch_all(executor)
            .await?;
    Ok(rows.into_iter().map(|(id, stored, generation)| (id, Decided { stored, generation })).collect())
}

/// The reservation `id` of a sale of `sku`.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.find"))]
pub async fn find(executor: impl PgExecutor<'_>, sku: &Sku, id: &str) -> Result<Option<Stored>, sqlx::Error> {
    sqlx::query_as(
        "select id, customer, quantity, stored, generation from flash_reservation
         where id = $2 and exists (select from flash_sale where flash_sale.id = sale and sku = $1)",
    )
    .bind(sku.as_str())
    .bind(id)
    .fetch_optional(executor)
    .await
}

/// At most `limit` reservations of a sale that are stored and whose ids come after `after`, by id.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.page"))]
pub async fn page(
    executor: impl PgExecutor<'_>,
    sale: SaleId,
    after: &str,
    limit: i64,
) -> Result<Vec<Stored>, sqlx::Error> {
    sqlx::query_as(
        "select id, customer, quantity, stored, generation from flash_reservation
         where sale = $1 and stored and id > $2 order by id limit $3",
    )
    .bind(sale.0)
    .bind(after)
    .bind(limit)
    .fetch_all(executor)
    .await
}

/// Stores all of these and counts their units, or none: the sale must not be closed, and must have their units left.
/// Returns whether they are stored. None of them may be stored before; a rejected one becomes stored.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.store"))]
pub async fn store(
    connection: &mut PgConnection,
    sale: SaleId,
    reservations: &[&Reservation],
) -> Result<bool, sqlx::Error> {
    let units: i64 = reservations.iter().map(|reservation| reservation.quantity).sum();
    let (ids, customers, quantities, generations) = columns(reservations);
    let stored = sqlx::query(
        "with room as (
             update flash_sale set stored = stored + $2
             where id = $1 and closed_at is null and stored + $2 <= opened
             returning id
         )
         insert into flash_reservation (id, sale, customer, quantity, stored, generation)
         select new.id, room.id, new.customer, new.quantity, true, new.generation
         from room,
              unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[]) as new (id, customer, quantity, generation)
         on conflict (id) do update
         set customer = excluded.customer, quantity = excluded.quantity, stored = true, generation = excluded.generation
         where not flash_reservation.stored",
    )
    .bind(sale.0)
    .bind(units)
    .bind(ids)
    .bind(customers)
    .bind(quantities)
    .bind(generations)
    .execute(connection)
    .await?;
    Ok(stored.rows_affected() > 0 || reservations.is_empty())
}

/// Marks these as rejected under their generation, each id once. A stored reservation stays stored.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_reservation.reject"))]
pub async fn reject(
    connection: &mut PgConnection,
    sale: SaleId,
    reservations: &[&Reservation],
) -> Result<(), sqlx::Error> {
    let (ids, customers, quantities, generations) = columns(reservations);
    sqlx::query(
        "insert into flash_reservation (id, sale, customer, quantity, stored, generation)
         select new.id, $1, new.customer, new.quantity, false, new.generation
         from unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) as new (id, customer, quantity, generation)
         on conflict (id) do update set generation = excluded.generation where not flash_reservation.stored",
    )
    .bind(sale.0)
    .bind(ids)
    .bind(customers)
    .bind(quantities)
    .bind(generations)
    .execute(connection)
    .await?;
    Ok(())
}

type Columns<'a> = (Vec<&'a str>, Vec<&'a str>, Vec<i64>, Vec<i64>);

fn columns<'a>(reservations: &[&'a Reservation]) -> Columns<'a> {
    let ids = reservations.iter().map(|reservation| reservation.id.as_str()).collect();
    let customers = reservations.iter().map(|reservation| reservation.customer.as_str()).collect();
    let quantities = reservations.iter().map(|reservation| reservation.quantity).collect();
    (ids, customers, quantities, reservations.iter().map(|reservation| reservation.generation).collect())
}
