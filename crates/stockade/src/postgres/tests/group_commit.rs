//! Changes under different locks that share a transaction.

use sqlx::{postgres::PgPoolOptions, query, query_scalar};
use tokio::{runtime::Runtime, sync::Semaphore, task::JoinHandle};
use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    Cache, Fence, Guard,
    lock::{Force, Mode},
    postgres::{FenceError, GroupCommit, GroupWrite, WriteError},
};

const SKUS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Takes units from stock. The answer is the id of the transaction.
#[derive(Clone)]
struct Take {
    /// Transactions that have begun wait for a permit.
    gate: Arc<Semaphore>,
    /// How many transactions have begun.
    begun: Arc<AtomicUsize>,
    /// Whether the next call panics.
    panics: Arc<AtomicBool>,
    stocks: Cache<Sku, i32>,
    /// A cache whose processes hear of a write a minute later.
    slow: Invalidator,
}

/// A change that gets no answer.
const NO_ANSWER: i32 = 0;
/// A change after which a savepoint fails to begin.
const LOSES_ITS_TRANSACTION: i32 = 11_000;

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
            let sku = SKUS.into_iter().find(|known| *known == sku).unwrap();
            let take = query_scalar(
                "update stock set quantity = quantity - $2 where sku = $1 returning pg_current_xact_id()::text",
            );
            let id = take.bind(sku).bind(units).fetch_one(&mut **tx).await?;
            tx.invalidate(&self.stocks, &Sku(sku));
            tx.invalidate_key(self.slow.clone(), fence.key().clone());
            answers.extend((*units != NO_ANSWER).then_some(id));
        }
        Ok(answers)
    }
}

struct World {
    pool: PgPool,
    locks: Locks,
    take: Take,
    groups: GroupCommit<Take>,
    tasks: TaskTracker,
}

type Answer = JoinHandle<Result<String, WriteError>>;

impl World {
    /// Ten units of each SKU.
    async fn start() -> (PostgresServer, Self) {
        let (postgres, pool) = database().await;
        (postgres, Self::of(pool, Duration::from_secs(60)).await)
    }

    async fn of(pool: PgPool, keeps_place: Duration) -> Self {
        sqlx::raw_sql(
            "create table stock (sku text primary key, quantity int not null check (quantity >= 0));
             insert into stock select sku, 10 from unnest(array['a', 'b', 'c', 'd', 'e', 'f']) as known (sku)",
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
        let groups = GroupCommit::keeping_places(&pool, take.clone(), keeps_place);
        Self { pool, locks: Locks::memory(), take, groups, tasks: TaskTracker::new() }
    }

    async fn lock(&self, sku: &'static str) -> Guard {
        self.locks.write(&Sku(sku)).acquire().await.unwrap()
    }

    /// Asks for a change under this lock.
    fn ask(&self, guard: &Guard, units: i32) -> Answer {
        let (groups, fence) = (self.groups.clone(), guard.fence());
        self.tasks.spawn(async move { groups.write(&fence, units).await })
    }

    /// Two changes whose transactions have begun: those asked for next form a group.
    async fn busy(&self) -> Busy {
        self.busy_after(0).await
    }

    /// [`World::busy`] when so many transactions have begun before.
    async fn busy_after(&self, begun: usize) -> Busy {
        let guards = [self.lock("a").await, self.lock("b").await];
        let answers = [self.ask(&guards[0], 1), self.ask(&guards[1], 1)];
        self.begun(begun + 2).await;
        Busy { _guards: guards, answers }
    }

    /// Waits until so many transactions have begun.
    async fn begun(&self, count: usize) {
        until(async || self.take.begun.load(Ordering::Acquire) == count).await;
    }

    /// Waits until so many changes wait while so many groups are under way.
    async fn stand(&self, waiting: usize, under_way: usize) {
        let stand = format!("GroupCommit {{ waiting: {waiting}, under_way: {under_way} }}");
        until(async || format!("{:?}", self.groups) == stand).await;
    }

    /// Asks for these units of c and for one of each of d, e and f. They are one group while others are under way.
    async fn ask_for_four(&self, of_c: i32) -> [(Guard, Answer); 4] {
        let mut group = Vec::new();
        for (sku, units) in [("c", of_c), ("d", 1), ("e", 1), ("f", 1)] {
            let guard = self.lock(sku).await;
            let answer = self.ask(&guard, units);
            group.push((guard, answer));
        }
        group.try_into().unwrap()
    }

    /// [`World::ask_for_four`], as the next group.
    async fn group(&self) -> [(Guard, Answer); 4] {
        let group = self.ask_for_four(1).await;
        self.stand(4, 2).await;
        group
    }

    fn open(&self) {
        self.take.gate.add_permits(1_000);
    }

    async fn quantities(&self) -> Vec<i32> {
        query_scalar("select quantity from stock order by sku").fetch_all(&self.pool).await.unwrap()
    }
}

struct Busy {
    _guards: [Guard; 2],
    answers: [Answer; 2],
}

impl Busy {
    async fn end(self) -> [String; 2] {
        let [one, other] = self.answers;
        [one.await.unwrap().unwrap(), other.await.unwrap().unwrap()]
    }
}

#[tokio::test]
async fn changes_that_wait_share_a_transaction() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    assert_eq!(*world.take.stocks.get(&Sku("c")).await.unwrap().value.unwrap(), 10);
    world.open();
    let mut ids = tokio::task::JoinSet::new();
    for (guard, answer) in group {
        ids.spawn(async move { (answer.await.unwrap().unwrap(), guard).0 });
    }
    let mut ids = ids.join_all().await;
    ids.dedup();
    let [one, other] = busy.end().await;
    assert_eq!(ids.len(), 1, "the changes were spread over {ids:?}");
    assert!(ids[0] != one && ids[0] != other && one != other);
    assert_eq!(world.quantities().await, [9; 6]);
    assert_eq!(*world.take.stocks.get(&Sku("c")).await.unwrap().value.unwrap(), 9);
    world.stand(0, 0).await;
}

/// The others of the group are applied, once each, and the change of c fails.
async fn only_c_fails(of_c: i32, prepare: impl AsyncFnOnce(&World, &Guard)) -> WriteError {
    let (_server, world) = World::start().await;
    only_c_fails_in(&world, of_c, prepare).await
}

async fn only_c_fails_in(world: &World, of_c: i32, prepare: impl AsyncFnOnce(&World, &Guard)) -> WriteError {
    let busy = world.busy().await;
    let [(c, answer_of_c), others @ ..] = world.ask_for_four(of_c).await;
    world.stand(4, 2).await;
    prepare(world, &c).await;
    world.open();
    for (_guard, answer) in others {
        answer.await.unwrap().unwrap();
    }
    busy.end().await;
    let error = answer_of_c.await.unwrap().unwrap_err();
    assert_eq!(error.applied(), Some(false), "{error:?}");
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    error
}

/// A claim of c by a later owner.
async fn claimed_by_another(pool: &PgPool) -> bool {
    let claim = query(Fence::CLAIM_SQL).bind("stock:c").bind(1_i64 << 52).bind("another");
    claim.execute(pool).await.unwrap().rows_affected() == 1
}

#[tokio::test]
async fn a_claim_that_is_refused_refuses_its_own_change_only() {
    let error = only_c_fails(1, async |world, _| assert!(claimed_by_another(&world.pool).await)).await;
    assert!(matches!(error, WriteError::Fence(FenceError::Rejected { .. })), "{error:?}");
}

/// A pool whose statements wait so long for a row that no test sees the end of it.
async fn patient(server: &PostgresServer) -> PgPool {
    let long = Duration::from_secs(60);
    let timeouts = Timeouts::default().statement(long).lock(long).idle_in_transaction(long);
    let options = options(server.url().parse().unwrap(), &timeouts);
    PgPoolOptions::new().connect_with(options).await.unwrap()
}

/// The change is made long before a statement on such a pool is impatient.
async fn soon(answer: Answer) {
    tokio::time::timeout(Duration::from_secs(20), answer).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_row_that_somebody_holds_keeps_only_its_own_change_waiting() {
    let (server, _) = database().await;
    let world = World::of(patient(&server).await, Duration::from_secs(60)).await;
    let busy = world.busy().await;
    let [(_c, of_c), others @ ..] = world.group().await;
    let mut holder = world.pool.begin().await.unwrap();
    query("select from stock where sku = 'c' for update").execute(&mut *holder).await.unwrap();
    world.open();
    for (_guard, answer) in others {
        soon(answer).await;
    }
    busy.end().await;
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    holder.rollback().await.unwrap();
    of_c.await.unwrap().unwrap();
    assert_eq!(world.quantities().await, [9; 6]);
}

#[tokio::test]
async fn rows_that_somebody_holds_keep_no_other_group_waiting() {
    let (server, _) = database().await;
    let world = World::of(patient(&server).await, Duration::from_millis(50)).await;
    world.open();
    let mut holder = world.pool.begin().await.unwrap();
    query("select from stock where sku in ('a', 'b') for update").execute(&mut *holder).await.unwrap();
    let busy = world.busy().await;
    for (_guard, answer) in world.ask_for_four(1).await {
        soon(answer).await;
    }
    holder.rollback().await.unwrap();
    busy.end().await;
    assert_eq!(world.quantities().await, [9; 6]);
}

#[tokio::test]
async fn a_change_that_breaks_a_constraint_fails_alone() {
    let error = only_c_fails(11, async |_, _| {}).await;
    assert!(matches!(error, WriteError::Statement(_)), "{error:?}");
}

#[tokio::test]
async fn a_change_without_an_answer_fails_alone() {
    let error = only_c_fails(NO_ANSWER, async |_, _| {}).await;
    assert!(matches!(error, WriteError::Statement(sqlx::Error::Protocol(_))), "{error:?}");
}

#[tokio::test]
async fn a_change_whose_lock_is_lost_while_it_waits_is_not_made() {
    let error = only_c_fails(1, async |world, c| {
        world.locks.force_release("stock:c", Force::Now).await.unwrap();
        until(async || !c.fence().is_held()).await;
    })
    .await;
    assert!(matches!(error, WriteError::Fence(FenceError::Lost(_))), "{error:?}");
}

#[tokio::test]
async fn a_group_that_lost_its_transaction_is_not_made_again() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.ask_for_four(LOSES_ITS_TRANSACTION).await;
    world.stand(4, 2).await;
    world.open();
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Ended)), "{error:?}");
    }
    busy.end().await;
}

#[tokio::test]
async fn a_lock_that_is_lost_before_the_commit_delays_its_own_answer_only() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group().await;
    world.take.gate.add_permits(2);
    busy.end().await;
    world.begun(3).await;
    world.locks.force_release("stock:c", Force::Now).await.unwrap();
    until(async || !c.fence().is_held()).await;
    world.open();
    for answer in [of_d, of_e, of_f] {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(world.quantities().await, [9; 6]);
    assert!(!of_c.is_finished(), "another process may still serve what was cached");
}

#[tokio::test]
async fn a_change_that_may_not_be_committed_any_more_keeps_no_other_from_it() {
    for how in ["answered", "downgraded"] {
        let (_server, world) = World::start().await;
        let busy = world.busy().await;
        let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group().await;
        // The busy ones end, and the group has begun when its first change is ruled out.
        world.take.gate.add_permits(2);
        busy.end().await;
        world.begun(3).await;
        let _reader = if how == "downgraded" {
            Some(c.downgrade().await.unwrap())
        } else {
            assert!(c.fence().ownership.commits.close());
            None
        };
        world.open();
        for answer in [of_d, of_e, of_f] {
            answer.await.unwrap().unwrap();
        }
        let error = of_c.await.unwrap().unwrap_err();
        assert_eq!(error.applied(), Some(false), "{how}: {error:?}");
        assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9], "{how}");
    }
}

#[tokio::test]
async fn a_change_that_is_ruled_out_while_it_waits_does_not_split_its_group() {
    for nobody_waits in [false, true] {
        let (_server, world) = World::start().await;
        let busy = world.busy().await;
        let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group().await;
        if nobody_waits {
            of_c.abort();
        } else {
            assert!(c.fence().ownership.commits.close(), "its request is answered as not applied");
        }
        let of_c = tokio::join!(of_c, async { world.open() }).0;
        match of_c {
            Ok(answer) => assert!(matches!(answer, Err(WriteError::Commit(CommitError::Closed))), "{answer:?}"),
            Err(ended) => assert!(nobody_waits && ended.is_cancelled(), "{ended:?}"),
        }
        let ids = [of_d.await.unwrap().unwrap(), of_e.await.unwrap().unwrap(), of_f.await.unwrap().unwrap()];
        assert!(ids[0] == ids[1] && ids[1] == ids[2], "{ids:?}");
        busy.end().await;
        assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    }
}

#[tokio::test]
async fn a_change_that_finds_the_queue_full_has_a_transaction_of_its_own() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let (c, d) = (world.lock("c").await, world.lock("d").await);
    let waiting: Vec<_> = (0..1_024).map(|_| world.ask(&c, 1)).collect();
    world.stand(1_024, 2).await;
    let beside = world.ask(&d, 1);
    world.begun(3).await;
    world.stand(1_024, 2).await;
    waiting.iter().for_each(JoinHandle::abort);
    world.open();
    beside.await.unwrap().unwrap();
    busy.end().await;
    world.stand(0, 0).await;
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 10, 10]);
}

#[tokio::test]
async fn two_changes_of_one_resource_have_a_transaction_each() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let c = world.lock("c").await;
    let answers = [world.ask(&c, 1), world.ask(&c, 1), world.ask(&c, 1)];
    world.stand(3, 2).await;
    world.open();
    let mut ids = Vec::new();
    for answer in answers {
        ids.push(answer.await.unwrap().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    busy.end().await;
    assert_eq!(world.quantities().await, [9, 9, 7, 10, 10, 10]);
}

#[tokio::test]
async fn a_panic_is_the_end_of_its_group_and_of_no_other() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    world.take.gate.add_permits(2);
    busy.end().await;
    world.take.panics.store(true, Ordering::Release);
    world.open();
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Unknown(sqlx::Error::WorkerCrashed))), "{error:?}");
    }
    world.stand(0, 0).await;
    let c = world.lock("c").await;
    world.groups.write(&c.fence(), 1).await.unwrap();
    assert_eq!(world.quantities().await, [9, 9, 9, 10, 10, 10]);
}

#[tokio::test]
async fn what_applies_nothing_leaves_no_claim() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    query("create table left_behind ()").execute(&mut *tx).await.unwrap();
    tx.apply_nothing();
    tx.commit().await.unwrap();
    let left: i64 = query_scalar(
        "select count(*) + (select count(*) from pg_class where relname = 'left_behind') from stockade.fence",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn a_runtime_that_stands_still_or_ends_keeps_no_other_waiting() {
    let (here, there) = (Runtime::new().unwrap(), tokio::runtime::Builder::new_current_thread().enable_all().build());
    let there = there.unwrap();
    let (_server, world) = here.block_on(World::start());
    // The connections belong to this runtime, which drives them all the time.
    here.block_on(async {
        drop(futures_util::future::join_all((0..8).map(|_| world.pool.acquire())).await);
        until(async || world.pool.num_idle() >= 8).await;
    });
    // Changes of another runtime: two are under way, a thousand of one resource wait, and nobody drives them any more.
    let stand_still = there.block_on(async {
        let mut asked = Vec::new();
        let guards = [world.lock("c").await, world.lock("d").await, world.lock("e").await];
        asked.extend([world.ask(&guards[0], 1), world.ask(&guards[1], 1)]);
        world.begun(2).await;
        asked.extend((0..1_000).map(|_| world.ask(&guards[2], 1)));
        world.stand(1_000, 2).await;
        (asked, guards)
    });
    here.block_on(async {
        let busy = world.busy_after(2).await;
        let f = world.lock("f").await;
        let waits = world.ask(&f, 1);
        world.open();
        busy.end().await;
        soon(waits).await;
        assert_eq!(world.quantities().await, [9, 9, 10, 10, 10, 9]);
    });
    assert!(stand_still.0.iter().all(|answer| !answer.is_finished()));
    there.shutdown_background();
    here.block_on(world.stand(0, 0));
}

#[tokio::test]
async fn a_shared_lock_writes_nothing() {
    let (_server, world) = World::start().await;
    world.open();
    let reader = world.locks.read(&Sku("c")).acquire().await.unwrap();
    let error = world.groups.write(&reader.fence(), 1).await.unwrap_err();
    assert!(matches!(error, WriteError::Fence(FenceError::Shared(Mode::Read))), "{error:?}");
    assert_eq!(world.quantities().await, [10; 6]);
}

#[tokio::test]
async fn a_group_without_a_connection_fails_at_once() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    tokio::join!(world.pool.close(), async { world.open() });
    busy.end().await;
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolClosed))), "{error:?}");
    }
    world.stand(0, 0).await;
}

#[tokio::test]
async fn nobody_knows_of_any_change_of_a_group_whose_commit_is_not_answered() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    world.take.gate.add_permits(2);
    busy.end().await;
    sqlx::raw_sql(
        "create function cut() returns trigger language plpgsql as
             $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
         create constraint trigger cut after update on stock deferrable initially deferred
         for each row execute function cut()",
    )
    .execute(&world.pool)
    .await
    .unwrap();
    world.open();
    for (guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Unknown(_))), "{error:?}");
        assert!(guard.downgrade().await.is_err(), "the commit may still be applied, and a reader would not see it");
    }
}
