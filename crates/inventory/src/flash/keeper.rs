//! The task that keeps the sales of an instance going.

use std::{collections::HashMap, error::Error, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Sale, SaleId, Stage,
    close::{CloseError, close},
    consumer::Consumer,
    reconcile,
};
use crate::{app::App, console::chain, db, metrics, trouble::Trouble};

/// How often Postgres is asked which sales there are.
const LOOK: Duration = Duration::from_secs(1);

/// How often the keeper checks that a counter can still be used.
const CHECK: Duration = Duration::from_millis(250);

/// The pause after a round, in which entries gather. A shorter one makes smaller transactions.
const GATHER: Duration = Duration::from_millis(10);

/// The longest pause while sales are open: entries of others may have to be claimed.
const IDLE: Duration = Duration::from_millis(100);

/// The pause after a failure: of that sale only, so that the others go on.
const TROUBLE: Duration = Duration::from_millis(250);

/// Carries entries to Postgres, rebuilds counters and ends sales, until `stop`. A round that has begun is finished.
pub(crate) async fn keep(app: App, stop: CancellationToken) {
    let mut keeper = Keeper::new(app.clone());
    let waiters = app.flash.waiters().watch(&app.flash, &app.pg);
    let rounds = async {
        while !stop.is_cancelled() {
            let pause = keeper.round().await;
            if stop.run_until_cancelled(keeper.pause(pause)).await.is_none() {
                return;
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        () = waiters => {}
    }
    for lane in keeper.lanes.values_mut() {
        while lane.closing.join_next().await.is_some() {}
    }
}

struct Keeper {
    app: App,
    /// The name of its consumers.
    name: String,
    sales: Vec<Sale>,
    looked: Option<Instant>,
    /// Why Postgres does not say which sales there are.
    trouble: Trouble,
    lanes: HashMap<SaleId, Lane>,
}

/// The state of a sale between two rounds.
struct Lane {
    consumer: Consumer,
    checked: Option<Instant>,
    failed: Option<Instant>,
    /// Why it stands still.
    trouble: Trouble,
    /// At most one task, which closes the sale. It may wait for the lock of the SKU and for the row of its stock, and
    /// other sales go on meanwhile.
    closing: JoinSet<Result<bool, CloseError>>,
}

/// What a step for a sale has done.
#[derive(Clone, Copy)]
struct Step {
    /// Entries were stored.
    stored: bool,
    /// Its counter can't be used yet, or its end has to wait.
    waits: bool,
}

/// How long to wait for the next round.
#[derive(Clone, Copy)]
enum Pause {
    /// There was something to do.
    Short,
    /// There was nothing to do.
    UntilNudged,
    /// Postgres did not say which sales there are.
    Trouble,
}

impl Keeper {
    fn new(app: App) -> Self {
        let name = format!("{:016x}", rand::random::<u64>());
        Self { app, name, sales: Vec::new(), looked: None, trouble: Trouble::default(), lanes: HashMap::new() }
    }

    async fn pause(&self, pause: Pause) {
        match pause {
            Pause::Short => sleep(GATHER).await,
            Pause::Trouble => sleep(TROUBLE).await,
            Pause::UntilNudged => {
                let limit = if self.sales.is_empty() { LOOK } else { IDLE };
                // A time-out is as good as a nudge.
                let _ = timeout(limit, self.app.flash.nudged()).await;
                sleep(GATHER).await;
            }
        }
    }

    async fn round(&mut self) -> Pause {
        match self.look().await {
            Ok(()) => {
                if self.trouble.end() {
                    tracing::info!("the flash sales are known again");
                }
            }
            Err(error) => {
                if self.trouble.is_news() {
                    tracing::warn!(error = %chain(&error), "the flash sales are not known");
                }
                for lane in self.lanes.values_mut() {
                    lane.consumer.count(&self.app.flash).await;
                }
                // Before the first answer there are no lanes, and how much waits is not known.
                if !self.lanes.is_empty() {
                    self.show();
                }
                return Pause::Trouble;
            }
        }
        let mut pause = Pause::UntilNudged;
        for sale in std::mem::take(&mut self.sales) {
            if self.tend(&sale).await {
                pause = Pause::Short;
            }
            self.sales.push(sale);
        }
        self.show();
        pause
    }

    /// Shows how many reservations wait.
    fn show(&self) {
        metrics::flash_stream(self.lanes.values().map(|lane| lane.consumer.left()).sum());
    }

    /// Asks Postgres which sales are not closed, unless the last answer is still good.
    async fn look(&mut self) -> Result<(), sqlx::Error> {
        if self.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return Ok(());
        }
        let asked = db::flash_sale::unclosed(&self.app.pg);
        self.sales = self.app.flash.answered(asked).await?;
        self.looked = Some(Instant::now());
        self.app.flash.remember(&self.sales);
        let sales = &self.sales;
        self.lanes.retain(|id, lane| sales.iter().any(|sale| sale.id == *id) || lane.is_closing());
        Ok(())
    }

    /// One step for one sale, unless it failed a moment ago. Returns whether there was something to do.
    async fn tend(&mut self, sale: &Sale) -> bool {
        let lane = self.lanes.entry(sale.id).or_insert_with(|| Lane::new(sale, &self.name));
        if lane.failed.is_some_and(|last| last.elapsed() < TROUBLE) {
            return false;
        }
        match lane.step(&self.app, sale).await {
            Ok(step) => {
                lane.failed = None;
                if lane.trouble.end() {
                    tracing::info!(sku = %sale.sku, "a flash sale goes on again");
                }
                if step.waits {
                    // The sale as it was read may be out of date.
                    self.looked = None;
                    if step.stored {
                        // Perhaps it waited for these.
                        lane.checked = None;
                    }
                }
                step.stored
            }
            Err(error) => {
                lane.failed = Some(Instant::now());
                if lane.trouble.is_news() {
                    tracing::warn!(error = %chain(error.as_ref()), sku = %sale.sku, "a flash sale stands still");
                }
                lane.consumer.count(&self.app.flash).await;
                false
            }
        }
    }
}

impl Lane {
    fn new(sale: &Sale, consumer: &str) -> Self {
        let consumer = Consumer::new(sale.sku.clone(), consumer);
        Self { consumer, checked: None, failed: None, trouble: Trouble::default(), closing: JoinSet::new() }
    }

    /// Whether the task that closes the sale still has something to do, such as invalidations after its COMMIT.
    fn is_closing(&mut self) -> bool {
        while self.closing.try_join_next().is_some() {}
        !self.closing.is_empty()
    }

    /// Stores what is in the stream and, from time to time, checks the counter or ends the sale.
    async fn step(&mut self, app: &App, sale: &Sale) -> Result<Step, Box<dyn Error + Send + Sync>> {
        let (flash, pg) = (&app.flash, &app.pg);
        let finished = self.consumer.round(flash, pg).await?;
        let closed = self.closing.try_join_next().transpose()?.transpose()?;
        let mut is_done = closed.unwrap_or(true);
        if closed.is_none() && self.checked.is_none_or(|last| last.elapsed() >= CHECK) {
            self.checked = Some(Instant::now());
            match sale.stage {
                Stage::Open => is_done = reconcile::settle(flash, pg, sale).await?,
                Stage::Closing if self.closing.is_empty() => self.begin_closing(app, sale),
                Stage::Closing | Stage::Closed => {}
            }
        }
        Ok(Step { stored: finished > 0, waits: !is_done })
    }

    fn begin_closing(&mut self, app: &App, sale: &Sale) {
        let (app, sale) = (app.clone(), sale.clone());
        self.closing.spawn(async move {
            let closed = close(&app, &sale).await;
            app.flash.nudge();
            closed
        });
    }
}
