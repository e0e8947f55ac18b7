use std::{error::Error, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout};

#[cfg(feature = "demo")]
use super::lab_process::LabProcess;
use super::{AttackError, Callers, ground::Ground, meter::Meter};
use crate::lab::{Count, Scheme};

/// With the defences, and without.
const SCHEMES: [Scheme; 2] = [Scheme::Stockade, Scheme::NoLock];

/// How long the other schemes may take.
const OTHERS: Duration = Duration::from_secs(25);

/// Buyers of one scheme at the same moment.
const AT_ONCE: usize = 60;

pub(super) async fn run(ground: &Ground, callers: Callers) -> Result<(), AttackError> {
    let units = (callers.get() / 20).max(1);
    let buyers = 3 * units;
    for scheme in SCHEMES {
        ground.place.lab.set(scheme, units.into()).await?;
    }
    ground.begin();
    let [on, off] = ground.meters();
    let sides = tokio::join!(sell(ground, on, SCHEMES[0], buyers), sell(ground, off, SCHEMES[1], buyers));
    ground.sold([sides.0?, sides.1?]);
    // Both sides are done: that another scheme fails or takes too long is no reason to say nothing.
    let others = async { tokio::join!(served(ground, buyers, units), apart(ground, units)) };
    match timeout(OTHERS, others).await {
        Ok((Err(error), _) | (_, Err(error))) => {
            tracing::warn!(error = &error as &dyn Error, "a scheme of the lab did not sell");
        }
        Err(_) => tracing::warn!(limit = ?OTHERS, "not every scheme of the lab sold in time; those are not shown"),
        Ok((Ok(()), Ok(()))) => {}
    }
    Ok(())
}

/// The same under each of the other schemes that the service sells by, one after the other.
async fn served(ground: &Ground, buyers: u32, units: u32) -> Result<(), AttackError> {
    for scheme in Scheme::served() {
        if !SCHEMES.contains(&scheme) {
            ground.place.lab.set(scheme, units.into()).await?;
            let count = sell(ground, &Meter::default(), scheme, buyers).await?;
            ground.sold_by(scheme, count);
        }
    }
    Ok(())
}

/// The same under those that it does not sell by.
#[cfg(feature = "demo")]
async fn apart(ground: &Ground, units: u32) -> Result<(), AttackError> {
    let mut lab = ground.lab_process.lock().await;
    for (scheme, count) in lab.insert(LabProcess::start(units)?).counts().await? {
        ground.sold_by(scheme, count);
    }
    Ok(())
}

/// None: they need servers of their own, which only a program with the feature `demo` starts.
#[cfg(not(feature = "demo"))]
async fn apart(_ground: &Ground, _units: u32) -> Result<(), AttackError> {
    Ok(())
}

/// Each buyer wants one unit.
async fn sell(ground: &Ground, meter: &Meter, scheme: Scheme, buyers: u32) -> Result<Count, AttackError> {
    let buy = |_| {
        let (lab, since) = (ground.place.lab.clone(), Instant::now());
        async move { meter.count(since, lab.sell(scheme).await.is_ok()) }
    };
    stream::iter(0..buyers).for_each_concurrent(AT_ONCE, buy).await;
    Ok(ground.place.lab.count(scheme).await?)
}
