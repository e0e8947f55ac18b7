//! The words of the trade: SKUs, quantities, stock and its movements. No HTTP and no SQL.

mod customer;
mod movement;
mod quantity;
mod sku;
mod stock;
mod text;
mod units;

pub use customer::Customer;
pub use movement::{Kind, Movement, Reference};
pub use quantity::{ApplyError, Delta, Quantity, QuantityError};
pub use sku::{Sku, SkuError};
pub use stock::Stock;
pub use text::TextError;
pub use units::Units;
