use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout};

#[cfg(feature = "demo")]
use super::lab_process::LabProcess;
use super::{AttackError, Callers, ground::Ground, meter::Meter};
use crate::{
    console::chain,
    lab::{Count, Scheme},
};

/// With the defences, and without.
const SCHEMES: [Scheme; 2] = [Scheme::Stockade, Scheme::NoLock];

/// How long the other schemes may take.
const OTHERS: Duration = Duration::from_secs(25);

/// Said of a scheme without a count.
const LATE: &str = "no result within 25 s";
const BROKE_OFF: &str = "broke off: the log says why";

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
    ground.others(others().collect());
    // Both sides are done: that another scheme fails or takes too long is no reason to say nothing.
    let selling = async {
        tokio::join!(
            told(ground, is_served, served(ground, buyers, units)),
            told(ground, |scheme| !is_served(scheme), apart(ground, units)),
        )
    };
    if Box::pin(timeout(OTHERS, selling)).await.is_err() {
        tracing::warn!(limit = ?OTHERS, "not every scheme of the lab sold in time");
        ground.not_sold(LATE, |_| true);
    }
    Ok(())
}

/// The schemes beside the two sides: those that need servers of their own only with the feature `demo`.
fn others() -> impl Iterator<Item = Scheme> {
    let served = Scheme::served().filter(|scheme| !SCHEMES.contains(scheme));
    #[cfg(feature = "demo")]
    return served.chain(Scheme::apart());
    #[cfg(not(feature = "demo"))]
    served
}

fn is_served(scheme: Scheme) -> bool {
    scheme.elsewhere().is_none()
}

/// Waits for the sales of the schemes that `are_meant`, and notes an error for those that it left without a count.
async fn told(
    ground: &Ground,
    are_meant: impl Fn(Scheme) -> bool,
    selling: impl Future<Output = Result<(), AttackError>>,
) {
    if let Err(error) = selling.await {
        tracing::warn!(error = %chain(&error), "a scheme of the lab did not sell");
        ground.not_sold(BROKE_OFF, are_meant);
    }
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
