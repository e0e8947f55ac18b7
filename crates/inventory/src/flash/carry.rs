//! Entries of the stream, stored in Postgres.

use sqlx::PgPool;

use super::{Reservation, Sale, SaleId, Stage};
use crate::db::{self, flash_reservation::Decided};

/// Why entries are not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    /// The database refuses them, however often it is tried.
    #[error("the database does not take it")]
    Refused(#[source] sqlx::Error),
    /// Their sale is not in the database.
    #[error("there is no such sale")]
    NoSale,
    /// The database does not answer, which says nothing about the entries.
    #[error("the database does not answer")]
    Away(#[source] sqlx::Error),
}

impl From<sqlx::Error> for CarryError {
    fn from(error: sqlx::Error) -> Self {
        // Data that is out of range, or that breaks a constraint.
        let is_of_the_data = error
            .as_database_error()
            .and_then(|error| error.code().map(|code| code.starts_with("22") || code.starts_with("23")));
        if is_of_the_data == Some(true) { Self::Refused(error) } else { Self::Away(error) }
    }
}

/// The outcome of an entry in Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored now.
    Stored,
    /// Not stored: its units are gone, its counter was replaced, or the sale is closed.
    Rejected,
    /// It had a row before, which says whether it is stored.
    Repeated(bool),
}

impl Fate {
    pub(super) fn is_stored(self) -> bool {
        matches!(self, Self::Stored | Self::Repeated(true))
    }
}

/// Stores reservations of one sale, in one transaction. Returns the fate of each, in their order.
///
/// It locks the sale's row first. So it reads the ids and the units left after everything that other consumers stored,
/// and nobody stores in between.
pub(super) async fn carry(pg: &PgPool, sale: SaleId, reservations: &[&Reservation]) -> Result<Vec<Fate>, CarryError> {
    let mut tx = pg.begin().await?;
    let sale = db::flash_sale::lock(&mut tx, sale).await?.ok_or(CarryError::NoSale)?;
    let ids: Vec<&str> = reservations.iter().map(|reservation| reservation.id.as_str()).collect();
    let mut known = db::flash_reservation::known(&mut *tx, &ids).await?;
    let mut room = sale.unsold();
    let fates: Vec<Fate> = reservations
        .iter()
        .map(|reservation| match known.get(&reservation.id) {
            Some(decided) if decided.stands(reservation.generation) => Fate::Repeated(decided.stored),
            _ => {
                let fate = decide(&sale, reservation, &mut room);
                let decided = Decided { stored: fate.is_stored(), generation: reservation.generation };
                known.insert(reservation.id.clone(), decided);
                fate
            }
        })
        .collect();
    // An id may be there twice, from two counters: the last decision is kept.
    let is_last = |one: &Reservation| known.get(&one.id).is_some_and(|last| last.generation == one.generation);
    let with = |fate: Fate| -> Vec<&Reservation> {
        let all = reservations.iter().zip(&fates).filter(|(_, its)| **its == fate).map(|(one, _)| *one);
        all.filter(|one| is_last(one)).collect()
    };
    let (stored, rejected) = (with(Fate::Stored), with(Fate::Rejected));
    if !stored.is_empty() && !db::flash_reservation::store(&mut tx, sale.id, &stored).await? {
        // The row is locked, so the units that were left a moment ago are still left.
        return Err(CarryError::Away(sqlx::Error::RowNotFound));
    }
    if !rejected.is_empty() {
        db::flash_reservation::reject(&mut tx, sale.id, &rejected).await?;
    }
    tx.commit().await?;
    Ok(fates)
}

/// Decides about a new reservation: stored if the newest counter let it in and enough units are left.
fn decide(sale: &Sale, reservation: &Reservation, room: &mut i64) -> Fate {
    let is_current = sale.stage != Stage::Closed && reservation.generation == sale.generation;
    if !is_current || reservation.quantity < 1 || reservation.quantity > *room {
        return Fate::Rejected;
    }
    *room -= reservation.quantity;
    Fate::Stored
}
