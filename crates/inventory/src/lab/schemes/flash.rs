//! A flash sale, as the service runs it: one script decides about units left, the limit of the customer and repeated
//! requests, and writes the reservation to a stream. A consumer stores the stream in Postgres, in batches. Nearly as
//! fast as a counter in Redis, and Postgres has the last word about the units sold.

use rand::Rng;

use super::{Failure, Sale, World};
use crate::{
    domain::{Customer, Units},
    flash::{Answer, Asked, FlashError, Name},
};

/// Each customer may have every unit.
const CUSTOMERS: u32 = 300;

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, Failure> {
    let customer = Customer::try_from(format!("customer-{}", rand::rng().random_range(0..CUSTOMERS)))?;
    let asked = Asked { customer, quantity: Units::new(1)?, name: Name::random() };
    match world.flash.reserve(&world.postgres, &world.product, &asked).await {
        Ok(Answer::Reserved(_)) => Ok(Sale::Sold),
        Err(FlashError::SoldOut) => Ok(Sale::SoldOut),
        other => Err(format!("the flash sale answered {other:?}").into()),
    }
}
