use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::{PgPool, postgres::PgPoolOptions, query, query_scalar};
use stockade_testbed::PostgresServer;
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::task::TaskTracker;

use super::super::{Recorder, Sku, database, until};
use crate::{
    Cache, Fence, Guard, Locks,
    cache::Invalidator,
    postgres::{GroupCommit, GroupWrite, Timeouts, Tx, WriteError, group_commit::Limits, options},
};

pub(super) const SKUS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Takes units from stock. The answer is the id of the transaction.
#[derive(Clone)]
pub(super) struct Take {
    /// Transactions that have begun wait for a permit.
    pub(super) gate: Arc<Semaphore>,
    /// How many transactions have begun.
    pub(super) begun: Arc<AtomicUsize>,
    /// Whether the next call panics.
    pub(super) panics: Arc<AtomicBool>,
    pub(super) stocks: Cache<Sku, i32>,
    /// A cache whose processes hear of a write a minute later.
    slow: Invalidator,
}

/// Each is longer than any test.
pub(super) const LONG: Limits = Limits { keeps_place: Duration::from_secs(60), step: Duration::from_secs(120) };

/// A change that gets no answer.
pub(super) const NO_ANSWER: i32 = 0;
/// A change after which a savepoint fails to begin.
pub(super) const LOSES_ITS_TRANSACTION: i32 = 11_000;

impl GroupWrite for Take {
    type Change = i32;
    type Answer = String;
    type Error = WriteError;

    async fn write(&self, tx: &mut Tx, changes: &[(Fence, i32)]) -> Result<Vec<String>, WriteError> {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.gate.acquire().await.unwrap().forget();
        assert!(!self.panics.swap(false, Ordering::AcqRel), "told to panic");
        let mut answers = Vec::new();
        for (fence, units) in changes {
            if *units == LOSES_ITS_TRANSACTION {
                query("select 1 / 0").execute(&mut **tx).await.unwrap_err();
                drop(sqlx::Connection::begin(&mut **tx).await.unwrap_err());
            }
            let key = fence.key().as_str().to_owned();
            let (_, sku) = key.split_once(':').unwrap();
            let sku: &'static str = sku.to_owned().leak();
            let take = query_scalar(
                "update stock set quantity = quantity - $2 where sku = $1 returning pg_current_xact_id()::text",
            );
            let id = take.bind(sku).bind(units).fetch_one(&mut **tx).await?;
            tx.invalidate(&self.stocks, &Sku(sku));
            tx.invalidations.add_key(self.slow.clone(), fence.key().clone());
            answers.extend((*units != NO_ANSWER).then_some(id));
        }
        Ok(answers)
    }
}

pub(super) struct World {
    pub(super) pool: PgPool,
    pub(super) locks: Locks,
    pub(super) take: Take,
    pub(super) groups: GroupCommit<Take>,
    tasks: TaskTracker,
}

pub(super) type Answer = JoinHandle<Result<String, WriteError>>;

impl World {
    /// Ten units of each SKU.
    pub(super) async fn start() -> (PostgresServer, Self) {
        let (postgres, pool) = database().await;
        (postgres, Self::of(pool, LONG).await)
    }

    pub(super) async fn of(pool: PgPool, limits: Limits) -> Self {
        sqlx::raw_sql(
            "create table stock (sku text primary key, quantity int not null check (quantity >= 0));
             insert into stock select sku, 10 from unnest(array['a', 'b', 'c', 'd', 'e', 'f']) as known (sku);
             insert into stock select 'many-' || n, 10 from generate_series(1, 40) n",
        )
        .execute(&pool)
        .await
        .unwrap();
        let from = pool.clone();
        let load = move |sku: Sku| {
            let from = from.clone();
            async move { query_scalar("select quantity from stock where sku = $1").bind(sku.0).fetch_optional(&from).await }
        };
        let slow = Recorder { heard_within: Some(Duration::from_secs(60)), ..Recorder::default() };
        let take = Take {
            slow: Invalidator(Arc::new(slow)),
            gate: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            panics: Arc::default(),
            stocks: Cache::memory().loader(load).build(),
        };
        let groups = GroupCommit::within(&pool, take.clone(), limits);
        Self { pool, locks: Locks::memory(), take, groups, tasks: TaskTracker::new() }
    }

    pub(super) async fn lock(&self, sku: &'static str) -> Guard {
        self.locks.write(&Sku(sku)).acquire().await.unwrap()
    }

    /// Asks for a change under this lock.
    pub(super) fn ask(&self, guard: &Guard, units: i32) -> Answer {
        let (groups, fence) = (self.groups.clone(), guard.fence());
        self.tasks.spawn(async move { groups.write(&fence, units).await })
    }

    /// Two changes whose transactions have begun: those asked for next form a group.
    pub(super) async fn busy(&self) -> Busy {
        self.busy_after(0).await
    }

    /// [`World::busy`] when so many transactions have begun before.
    pub(super) async fn busy_after(&self, begun: usize) -> Busy {
        let guards = [self.lock("a").await, self.lock("b").await];
        let answers = [self.ask(&guards[0], 1), self.ask(&guards[1], 1)];
        self.begun(begun + 2).await;
        Busy { _guards: guards, answers }
    }

    /// [`World::group`], once its transaction has begun and no other is under way. It waits at the gate.
    pub(super) async fn group_under_way(&self) -> [(Guard, Answer); 4] {
        let busy = self.busy().await;
        let group = self.group().await;
        self.take.gate.add_permits(2);
        busy.end().await;
        self.begun(3).await;
        group
    }

    /// Waits until so many transactions have begun.
    pub(super) async fn begun(&self, count: usize) {
        until(async || self.take.begun.load(Ordering::Acquire) == count).await;
    }

    /// Waits until so many changes wait while so many groups are under way.
    pub(super) async fn stand(&self, waiting: usize, under_way: usize) {
        let stand = format!("GroupCommit {{ waiting: {waiting}, under_way: {under_way} }}");
        until(async || format!("{:?}", self.groups) == stand).await;
    }

    /// Asks for these units of c and for one of each of d, e and f. They are one group while others are under way.
    pub(super) async fn ask_for_four(&self, of_c: i32) -> [(Guard, Answer); 4] {
        let mut group = Vec::new();
        for (sku, units) in [("c", of_c), ("d", 1), ("e", 1), ("f", 1)] {
            let guard = self.lock(sku).await;
            let answer = self.ask(&guard, units);
            group.push((guard, answer));
        }
        group.try_into().unwrap()
    }

    /// [`World::ask_for_four`], as the next group.
    pub(super) async fn group(&self) -> [(Guard, Answer); 4] {
        let group = self.ask_for_four(1).await;
        self.stand(4, 2).await;
        group
    }

    pub(super) fn open(&self) {
        self.take.gate.add_permits(1_000);
    }

    pub(super) async fn quantities(&self) -> Vec<i32> {
        query_scalar("select quantity from stock where length(sku) = 1 order by sku")
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }
}

pub(super) struct Busy {
    _guards: [Guard; 2],
    pub(super) answers: [Answer; 2],
}

impl Busy {
    pub(super) async fn end(self) -> [String; 2] {
        let [one, other] = self.answers;
        [one.await.unwrap().unwrap(), other.await.unwrap().unwrap()]
    }
}

/// A claim of c by a later owner.
pub(super) async fn claimed_by_another(pool: &PgPool) -> bool {
    let claim = query(Fence::CLAIM_SQL).bind("stock:c").bind(1_i64 << 52).bind("another");
    claim.execute(pool).await.unwrap().rows_affected() == 1
}

/// A pool whose statements wait so long for a row that no test sees the end of it.
pub(super) async fn patient(server: &PostgresServer, connections: u32) -> PgPool {
    let long = Duration::from_secs(60);
    let timeouts = Timeouts::default().statement(long).lock(long).idle_in_transaction(long);
    let options = options(server.url().parse().unwrap(), &timeouts);
    PgPoolOptions::new().max_connections(connections).connect_with(options).await.unwrap()
}

/// The change is made long before a statement on such a pool is impatient.
pub(super) async fn soon(answer: Answer) {
    tokio::time::timeout(Duration::from_secs(20), answer).await.unwrap().unwrap().unwrap();
}
