//! Transfers between accounts: both accounts are locked or neither, one transaction claims both, and no read in any
//! process is older than a transfer that was acknowledged (a strict cache).
//!
//! ```text
//! cargo build -p stockade --features postgres --example transfer
//! cargo run -p stockade-testbed -- exec -- target/debug/examples/transfer
//! ```

use std::{borrow::Cow, env, error::Error, time::Duration};

use futures_util::future::try_join_all;
use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};
use stockade::{
    Cache, Locks, Redis, Resource,
    postgres::{self, Relay, Timeouts},
};

const TABLE: &str = "
    create table if not exists account (id text primary key, balance bigint not null);
    insert into account values ('ann', 100), ('bob', 100) on conflict (id) do update set balance = 100";

#[derive(Clone, Copy)]
struct Account(&'static str);

impl Resource for Account {
    const KIND: &'static str = "account";

    fn id(&self) -> Cow<'_, str> {
        self.0.into()
    }
}

struct Bank {
    pool: PgPool,
    locks: Locks,
    balances: Cache<Account, i64>,
}

/// Reads on a connection of the cache, or within a transaction.
async fn load(connection: &mut PgConnection, account: Account) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select balance from account where id = $1").bind(account.0).fetch_optional(connection).await
}

impl Bank {
    /// Says why it is refused, if it is: then nothing was changed. After an error it may have been made:
    /// `CommitError::applied` tells whether it can be tried again.
    async fn transfer(&self, from: Account, to: Account, amount: u32) -> Result<Option<String>, Box<dyn Error>> {
        // Asked for in one order everywhere: a transfer the other way round does not wait for this one for ever.
        let both = self.locks.write_all([&from, &to]).wait(Duration::from_secs(10)).acquire().await?;
        let mut tx = both.begin(&self.pool).await?;
        for (account, change) in [(from, -i64::from(amount)), (to, i64::from(amount))] {
            // What the transaction sees, after all that was written under these locks before.
            match self.balances.get_in(&mut tx, &account).await? {
                None => return Ok(Some(format!("{}: no such account", account.0))), // rolls both back
                Some(balance) if balance + change < 0 => {
                    return Ok(Some(format!("{}: {balance} is too little", account.0)));
                }
                Some(_) => {}
            }
            let update = "update account set balance = balance + $2 where id = $1";
            sqlx::query(update).bind(account.0).bind(change).execute(&mut *tx).await?;
            tx.invalidate(&self.balances, &account); // a strict cache hears of it before COMMIT
        }
        tx.commit().await?;
        drop(both); // released in the background: what becomes of the lock changes nothing about what was applied
        Ok(None)
    }

    async fn balance(&self, account: Account) -> Result<i64, Box<dyn Error>> {
        Ok(self.balances.get(&account).await?.value.map_or(0, |balance| *balance))
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says what came of it")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let redis = Redis::connect(env::var("REDIS_URL")?).await?;
    let options = postgres::options(env::var("DATABASE_URL")?.parse()?, &Timeouts::default());
    let pool = postgres::on_primary(PgPoolOptions::new()).acquire_timeout(Duration::from_secs(1));
    let pool = pool.connect_with(options).await?;
    postgres::install(&pool).await?;
    sqlx::raw_sql(TABLE).execute(&pool).await?;
    let balances = Cache::builder(&redis)
        .ttl(Duration::from_secs(60)..=Duration::from_secs(120))
        .load_timeout(Duration::from_secs(4)) // longer than a wait for the pool and a statement together
        .strict(&pool)
        .loader_in(&pool, load)
        .build();
    let relay = Relay::spawn(pool.clone(), [balances.invalidator()]); // vouches for the Redis of a strict cache
    let bank = Bank { pool, locks: Locks::new(&redis), balances };

    let (ann, bob) = (Account("ann"), Account("bob"));
    println!("ann {}, bob {}", bank.balance(ann).await?, bank.balance(bob).await?);
    let there = (0..8).map(|_| bank.transfer(ann, bob, 5));
    let back = (0..4).map(|_| bank.transfer(bob, ann, 1));
    tokio::try_join!(try_join_all(there), try_join_all(back))?;
    for (from, to, amount) in [(ann, Account("eve"), 1), (ann, bob, 65)] {
        if let Some(refused) = bank.transfer(from, to, amount).await? {
            println!("{refused}");
        }
    }
    println!("ann {}, bob {}", bank.balance(ann).await?, bank.balance(bob).await?);

    let limit = Duration::from_secs(5);
    tokio::join!(bank.locks.shutdown(limit), bank.balances.shutdown(limit), relay.shutdown(limit));
    Ok(())
}
