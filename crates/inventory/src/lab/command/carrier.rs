use std::time::Duration;

use futures_util::join;
use sqlx::query_scalar;
use time::OffsetDateTime;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Failure, world::World};
use crate::{
    db::{self, schema::MIGRATOR},
    domain::Units,
    flash::Consumer,
};

/// The pause in which reservations gather, as in the service.
const GATHER: Duration = Duration::from_millis(10);

/// The flash sale of the lab, and the consumer that stores what buyers reserve.
#[derive(Debug)]
pub(super) struct Carrier {
    world: World,
    consumer: Consumer,
}

impl Carrier {
    /// Opens the sale, in the tables of the service.
    pub(super) async fn open(world: World, units: u32) -> Result<Self, Failure> {
        MIGRATOR.run(&world.postgres).await?;
        let units = Units::new(units.into())?;
        let ends_at = OffsetDateTime::now_utc() + time::Duration::DAY;
        let mut connection = world.postgres.acquire().await?;
        let sale = db::flash_sale::insert(&mut connection, &world.product, units, units, ends_at).await?;
        drop(connection);
        world.flash.open(&world.postgres, &sale).await;
        let consumer = Consumer::new(world.product.clone(), "lab");
        Ok(Self { world, consumer })
    }

    /// Stores reservations while buyers buy, and then those that are left.
    pub(super) async fn carry_while<T>(&mut self, buying: impl Future<Output = T>) -> Result<T, Failure> {
        let bought = CancellationToken::new();
        let buying = async {
            let seen = buying.await;
            bought.cancel();
            seen
        };
        let carrying = async {
            loop {
                let was_bought = bought.is_cancelled();
                match self.consumer.round(&self.world.flash, &self.world.postgres).await {
                    Ok(0) if was_bought => return Ok(()),
                    Ok(_) => sleep(GATHER).await,
                    Err(error) => return Err(error),
                }
            }
        };
        let (seen, carried) = join!(buying, carrying);
        carried?;
        Ok(seen)
    }

    /// Units that Postgres has not stored as sold.
    pub(super) async fn left(&self) -> Result<i64, Failure> {
        Ok(query_scalar("select opened - stored from flash_sale").fetch_one(&self.world.postgres).await?)
    }
}
