//! The task that keeps the sales of an instance going.

use std::{collections::HashMap, error::Error, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Sale, SaleId, Stage, close::close, consumer::Consumer, reconcile};
use crate::{app::App, console::chain, db, metrics, trouble::Trouble};

/// How often Postgres is asked which sales there are.
const LOOK: Duration = Duration::from_secs(1);

/// How often the keeper checks that a counter can still be used.
const CHECK: Duration = Duration::from_millis(250);

/// The pause after a round, in which entries gather. A shorter one makes smaller transactions.
const GATHER: Duration = Duration::from_millis(10);

/// The longest pause while sales are open: entries of others may have to be claimed.
const IDLE: Duration = Duration::from_millis(100);

/// How many sales are tended at once, and for how many the counter is checked at once: so many connections to Postgres
/// each takes.
const AT_ONCE: usize = 4;

/// The pause after a failure: of that sale only, so that the others go on.
const TROUBLE: Duration = Duration::from_millis(250);

type Failure = Box<dyn Error + Send + Sync>;

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
        while lane.aside.join_next().await.is_some() {}
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
    /// Places for tasks that check counters.
    checks: Arc<Semaphore>,
}

/// The state of a sale between two rounds.
struct Lane {
    consumer: Consumer,
    checked: Option<Instant>,
    failed: Option<Instant>,
    /// Why it stands still.
    trouble: Trouble,
    /// At most one task, which checks the counter and makes it if need be, or closes the sale. Either may take long,
    /// and all sales go on meanwhile. It returns false if there is more to do.
    aside: JoinSet<Result<bool, Failure>>,
    checks: Arc<Semaphore>,
}

/// What a step for a sale has done.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Entries were stored.
    stored: bool,
    /// How the task aside ended, if it did: false if the counter can't be used yet, or the end has to wait.
    aside: Option<bool>,
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
        let (sales, looked, trouble, lanes) = (Vec::new(), None, Trouble::default(), HashMap::new());
        Self { app, name, sales, looked, trouble, lanes, checks: Arc::new(Semaphore::new(AT_ONCE)) }
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
        let steps = self.tend().await;
        if steps.iter().any(|step| step.aside == Some(false)) {
            // The sales as they were read may be out of date.
            self.looked = None;
        }
        self.show();
        if steps.iter().any(|step| step.stored) { Pause::Short } else { Pause::UntilNudged }
    }

    /// One step for each sale, for several at once.
    async fn tend(&mut self) -> Vec<Step> {
        for sale in &self.sales {
            self.lanes.entry(sale.id).or_insert_with(|| Lane::new(sale, &self.name, &self.checks));
        }
        let (app, sales) = (&self.app, &self.sales);
        let lanes = self.lanes.iter_mut();
        let open = lanes.filter_map(|(id, lane)| Some((lane, sales.iter().find(|sale| sale.id == *id)?)));
        let steps: Vec<_> = open.map(|(lane, sale)| lane.tend(app, sale)).collect();
        stream::iter(steps).buffer_unordered(AT_ONCE).collect().await
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
        self.lanes.retain(|id, lane| sales.iter().any(|sale| sale.id == *id) || lane.is_busy());
        Ok(())
    }
}

impl Lane {
    fn new(sale: &Sale, consumer: &str, checks: &Arc<Semaphore>) -> Self {
        let (consumer, aside) = (Consumer::new(sale.sku.clone(), consumer), JoinSet::new());
        let (trouble, checks) = (Trouble::default(), Arc::clone(checks));
        Self { consumer, checked: None, failed: None, trouble, aside, checks }
    }

    /// Whether the task aside still has something to do, such as invalidations after the COMMIT that closes the sale.
    fn is_busy(&mut self) -> bool {
        while self.aside.try_join_next().is_some() {}
        !self.aside.is_empty()
    }

    /// One step, unless the last one failed a moment ago.
    async fn tend(&mut self, app: &App, sale: &Sale) -> Step {
        if self.failed.is_some_and(|last| last.elapsed() < TROUBLE) {
            return Step::default();
        }
        match self.step(app, sale).await {
            Ok(step) => {
                self.failed = None;
                // It may be the task aside that fails each time.
                if step.aside.is_some() && self.trouble.end() {
                    tracing::info!(sku = %sale.sku, "a flash sale goes on again");
                }
                if step.aside == Some(false) && step.stored {
                    // Perhaps it waited for these.
                    self.checked = None;
                }
                step
            }
            Err(error) => {
                self.failed = Some(Instant::now());
                if self.trouble.is_news() {
                    tracing::warn!(error = %chain(error.as_ref()), sku = %sale.sku, "a flash sale stands still");
                }
                self.consumer.count(&app.flash).await;
                Step::default()
            }
        }
    }

    /// Stores what is in the stream and, from time to time, checks the counter or ends the sale.
    async fn step(&mut self, app: &App, sale: &Sale) -> Result<Step, Failure> {
        let stored = self.consumer.round(&app.flash, &app.pg).await? > 0;
        let aside = self.aside.try_join_next().transpose()?.transpose()?;
        let is_due = self.checked.is_none_or(|last| last.elapsed() >= CHECK);
        if aside.is_none() && self.aside.is_empty() && is_due {
            self.checked = Some(Instant::now());
            self.begin(app.clone(), sale.clone());
        }
        Ok(Step { stored, aside })
    }

    fn begin(&mut self, app: App, sale: Sale) {
        match sale.stage {
            Stage::Open => {
                let checks = Arc::clone(&self.checks);
                self.aside.spawn(async move {
                    let _place = checks.acquire().await?;
                    Ok(reconcile::settle(&app.flash, &app.pg, &sale).await?)
                });
            }
            Stage::Closing => {
                self.aside.spawn(async move {
                    let closed = close(&app, &sale).await;
                    app.flash.nudge();
                    Ok(closed?)
                });
            }
            Stage::Closed => {}
        }
    }
}
