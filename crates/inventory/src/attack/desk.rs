use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
#[cfg(feature = "demo")]
use stockade::Redis;
use stockade::cache::BuildError;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Attack, AttackError, Callers, Report,
    goods::Goods,
    ground::Ground,
    guarded::Guarded,
    naive::Naive,
    place::Place,
    run::{Ending, How, Moment, Run},
    turn,
};
#[cfg(feature = "demo")]
use super::{killed, own_redis::OwnRedis};

/// How long an attack may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The attacks of a running service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attacks(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    place: Place,
    on: Arc<Guarded>,
    off: Goods,
    runs: Mutex<Runs>,
    /// Stops every run.
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The last run of each attack.
#[derive(Debug, Default)]
struct Runs {
    last: BTreeMap<Attack, Arc<Run>>,
    /// The run that began last, and the token that stops it.
    newest: Option<(Arc<Run>, CancellationToken)>,
}

impl Attacks {
    /// Connects only the cache. An attack makes the other connections when it needs them.
    ///
    /// # Errors
    ///
    /// As `CacheBuilder::try_build`, which refuses a cluster: there are no attacks on a cluster.
    pub(crate) fn new(place: Place) -> Result<Self, BuildError> {
        let [on, off] = [(); 2].map(|()| Goods::new(place.options.clone()));
        let on = Arc::new(Guarded::new(&place.redis, on)?);
        let (runs, stop, tasks) = (Mutex::default(), CancellationToken::new(), TaskTracker::new());
        Ok(Self(Arc::new(Desk { place, on, off, runs, stop, tasks })))
    }

    /// Begins an attack, which ends by itself.
    ///
    /// # Errors
    ///
    /// [`AttackError::Running`]: another attack runs. [`AttackError::Elsewhere`]: this build can't run the attack.
    pub(crate) fn start(&self, attack: Attack, callers: Callers) -> Result<(), AttackError> {
        if let Some(missing) = attack.missing() {
            return Err(AttackError::Elsewhere(missing));
        }
        let desk = Arc::clone(&self.0);
        let mut runs = desk.runs.lock();
        if runs.newest.as_ref().is_some_and(|(run, _)| !run.is_over()) {
            return Err(AttackError::Running);
        }
        let (run, stop) = (Arc::new(Run::begin(attack)), desk.stop.child_token());
        runs.last.insert(attack, Arc::clone(&run));
        runs.newest = Some((Arc::clone(&run), stop.clone()));
        drop(runs);
        self.0.tasks.spawn(async move { Box::pin(desk.conduct(attack, callers, &run, &stop)).await });
        Ok(())
    }

    /// Stops the attack that is under way, if there is one.
    pub(crate) fn stop(&self) {
        if let Some((_, stop)) = &self.0.runs.lock().newest {
            stop.cancel();
        }
    }

    /// The last run of each attack that has been run.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.0.runs.lock().last.values().map(|run| run.report()).collect()
    }

    /// The last run of an attack, with its moments.
    pub(crate) fn last(&self, attack: Attack) -> Option<(Report, Vec<Moment>)> {
        let run = self.0.runs.lock().last.get(&attack).cloned()?;
        Some((run.report(), run.moments()))
    }

    /// Stops the attack that is under way, and closes the connections.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        let desk = &self.0;
        desk.stop.cancel();
        desk.tasks.close();
        let end = async {
            desk.tasks.wait().await;
            desk.on.shutdown(limit).await;
            tokio::join!(desk.on.goods.close(), desk.off.close());
        };
        if timeout(limit, end).await.is_err() {
            tracing::warn!("an attack was still under way");
        }
    }
}

impl Desk {
    async fn conduct(&self, attack: Attack, callers: Callers, run: &Run, stop: &CancellationToken) {
        tracing::info!(?attack, "an attack of the lab begins");
        let _ending = Ending(run);
        // Attacks share tables, keys and schemes: two at once would count each other's sales.
        let turn = match stop.run_until_cancelled(turn::take(&self.place.locks)).await {
            Some(Ok(turn)) => turn,
            Some(Err(error)) => return run.end(How::Failed, None, Some(error)),
            None => return run.end(How::Stopped, None, None),
        };
        self.conduct_in_turn(attack, callers, run, stop).await;
        // A turn that cannot be given back ends with its lease.
        let _ = turn.release().await;
    }

    async fn conduct_in_turn(&self, attack: Attack, callers: Callers, run: &Run, stop: &CancellationToken) {
        let ground = match self.ground(attack).await {
            Ok(ground) => ground,
            Err(error) => return run.end(How::Failed, None, Some(error)),
        };
        let attacking = Box::pin(async {
            ground.quiet().await;
            tokio::select! {
                done = attack.run(&ground, callers) => done,
                () = run.sample(&ground) => Ok(()),
            }
        });
        let (how, why) = match timeout(LIMIT, stop.run_until_cancelled(attacking)).await {
            Ok(Some(Ok(()))) => (How::Ended, None),
            Ok(Some(Err(error))) => (How::Failed, Some(error)),
            Ok(None) => (How::Stopped, None),
            Err(_) => (How::CutOff, None),
        };
        run.end(how, Some(&ground), why);
        #[cfg(feature = "demo")]
        {
            if attack == Attack::KilledHolder {
                killed::clean_up(&ground).await;
            }
            ground.end().await;
        }
    }

    async fn ground(&self, attack: Attack) -> Result<Ground, AttackError> {
        if attack.has_own_redis() {
            return self.own_ground().await;
        }
        let off = Naive::new(self.place.redis.clone(), self.off.clone());
        Ok(Ground::new(Arc::clone(&self.on), off, &self.place))
    }

    /// A ground on a Redis that only its two sides use.
    #[cfg(feature = "demo")]
    async fn own_ground(&self) -> Result<Ground, AttackError> {
        let server = OwnRedis::start().await?;
        let redis = Redis::connect(server.url()).await.map_err(|error| AttackError::Redis(error.into()))?;
        let on = Guarded::new(&redis, self.on.goods.clone())?;
        let off = Naive::new(redis, self.off.clone());
        Ok(Ground::new(Arc::new(on), off, &self.place).on_server(server))
    }

    #[cfg(not(feature = "demo"))]
    async fn own_ground(&self) -> Result<Ground, AttackError> {
        Err(AttackError::Elsewhere("the attack has no Redis of its own"))
    }
}
