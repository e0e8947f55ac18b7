//! The words of the trade: SKUs, quantities, stock and its movements. No HTTP and no SQL.

mod customer;
mod movement;
mod quantity;
mod sku;
mod stock;
mod units;

pub use customer::{Customer, CustomerError};
pub use movement::{Kind, Movement, Reference, ReferenceError};
pub use quantity::{ApplyError, Delta, Quantity, QuantityError};
pub use sku::{Sku, SkuError};
pub use stock::Stock;
pub use units::Units;
