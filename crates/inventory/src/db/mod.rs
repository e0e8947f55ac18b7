//! SQL, one module per table: every function there runs one statement on the connection it is given and decides
//! nothing. Its error is that of the database, unless it says otherwise.

#![allow(clippy::missing_errors_doc, reason = "the module says it once")]

pub mod connect;
pub mod flash_dead_letter;
pub mod flash_reservation;
pub mod flash_sale;
pub mod idempotency;
pub mod movement;
pub mod schema;
pub mod sku_filter;
pub mod stock;

/// The error for a value that the service never writes: somebody else wrote it, past the constraints.
fn undecodable(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
