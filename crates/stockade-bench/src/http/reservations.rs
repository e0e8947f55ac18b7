use stockade_testbed::ChildProcess;

use super::{
    World,
    changes::UPDATE,
    wire::{Wire, post, put},
    world::{FLASH, contender},
};
use crate::contender::{Contender, Failure};

/// Reservations that all want the same flash sale, next to the least that can sell a unit. The service stores the
/// reservations in batches: before it answers them, or a moment later. The second service must live as long as its
/// contender.
pub(crate) async fn reservations(world: &World) -> Result<(Vec<Contender>, ChildProcess), Failure> {
    let (part, address) = world.durable().await?;
    let sale = "{\"quantity\":900000,\"per_customer\":1,\"ends_at\":\"2100-01-01T00:00:00Z\"}";
    for sku in FLASH {
        Wire::connect(&world.service).await?.exchange(&put(&format!("/flash/{sku}"), sale)).await?;
    }
    let reserve = |sku| {
        move |task, turn| {
            let body = format!("{{\"customer\":\"C{task}-{turn}\",\"quantity\":1}}");
            post(&format!("/flash/{sku}/reservations"), &body)
        }
    };
    let [soon, durable] = FLASH;
    let update = |_, _| post("/conditional/S0", "{\"delta\":1}");
    let contenders = vec![
        contender(UPDATE, &world.floor, update).await?,
        contender("stockade, answered once Redis has it", &world.service, reserve(soon)).await?,
        contender("stockade, answered once PostgreSQL has it", &address, reserve(durable)).await?,
    ];
    Ok((contenders, part))
}
