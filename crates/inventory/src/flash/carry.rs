//! Entries of the stream, stored in Postgres.

use sqlx::PgPool;

use super::{Reservation, Sale, SaleId, Stage};
use crate::db::{self, flash_reservation::Decided};

/// Why entries are not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    /// They can't be, however often it is tried.
    #[error("the database does not take it")]
    Refused(#[source] sqlx::Error),
    /// Their sale is not in the database.
    #[error("there is no such sale")]
    NoSale,
    /// The database gives no answer: it says nothing about them.
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

/// The fate of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored now.
    Stored,
    /// Its units are not there any more.
    Rejected,
    /// It had a row before; whether it is stored.
    Repeated(bool),
}

impl Fate {
    pub(super) fn is_stored(self) -> bool {
        matches!(self, Self::Stored | Self::Repeated(true))
    }
}

/// Stores reservations of one sale, in one transaction; the fate of each, in their order.
///
/// The sale's row is locked first: what is known of the ids, and how many units are left, is read after everything that
/// other consumers stored, and nobody stores in between.
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
    // An id may be there twice, of two counters: what was decided last is kept.
    let is_last = |one: &Reservation| known.get(&one.id).is_some_and(|last| last.generation == one.generation);
    let with = |fate: Fate| -> Vec<&Reservation> {
        let all = reservations.iter().zip(&fates).filter(|(_, its)| **its == fate).map(|(one, _)| *one);
        all.filter(|one| is_last(one)).collect()
    };
    let (stored, rejected) = (with(Fate::Stored), with(Fate::Rejected));
    if !stored.is_empty() && !db::flash_reservation::store(&mut tx, sale.id, &stored).await? {
        // The row is locked, so what was left of it a moment ago still is.
        return Err(CarryError::Away(sqlx::Error::RowNotFound));
    }
    if !rejected.is_empty() {
        db::flash_reservation::reject(&mut tx, sale.id, &rejected).await?;
    }
    tx.commit().await?;
    Ok(fates)
}

/// Whether a reservation is stored, of which nothing is known: one of the newest counter, whose units are there.
fn decide(sale: &Sale, reservation: &Reservation, room: &mut i64) -> Fate {
    let is_current = sale.stage != Stage::Closed && reservation.generation == sale.generation;
    if !is_current || reservation.quantity < 1 || reservation.quantity > *room {
        return Fate::Rejected;
    }
    *room -= reservation.quantity;
    Fate::Stored
}
