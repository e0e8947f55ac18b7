//! Fences and invalidations in Postgres: what keeps data right when a lock can't.
//!
//! A lease can end while its holder still works: the process was stopped, the clock jumped, the lock store failed over.
//! [`Fence::begin`](crate::Fence::begin) therefore starts the transaction by *claiming* the resource's fence row: the
//! row takes the ownership's `(token, owner)` unless a newer ownership was there before, and stays locked until the
//! transaction ends. A holder that is no longer the newest is refused before it has read anything.
//!
//! ```no_run
//! # use stockade::{Fence, cache::Cache, Resource};
//! # use std::borrow::Cow;
//! # struct Sku(String);
//! # impl Resource for Sku { const KIND: &'static str = "stock"; fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) } }
//! # async fn example(fence: Fence, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! # let sku = Sku("85123A".to_owned());
//! let mut tx = fence.begin(&pool).await?;
//! sqlx::query("update stock set quantity = quantity - 1 where sku = $1").bind(&sku.0).execute(&mut *tx).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Why the claim is a statement of its own
//!
//! Two holders that both read before either wrote lose an update even if each write is checked, so the claim comes
//! before the first protected read. It must also be a *separate* statement: under READ COMMITTED every statement reads
//! from a snapshot taken when it starts. A claim that waits for its predecessor's row lock and reads in the same
//! statement returns what was true before the predecessor committed; the next statement sees the commit. [`Tx`] always
//! runs READ COMMITTED, whatever the database's default.
//!
//! # Invalidations
//!
//! [`Tx::invalidate`] binds an invalidation to its transaction: [`Tx::commit`] writes it to an outbox in the same
//! transaction, and drops the cached value right after COMMIT. What a crash, a time-out or a dead cache prevented, the
//! [`Relay`] of any process does later. A transaction that rolls back invalidates nothing.
//!
//! # Strict caches
//!
//! A cache built with [`CacheBuilder::strict`](crate::cache::CacheBuilder::strict) is told of a write *before* COMMIT,
//! by an intent that names the transaction, and serves nothing of what is being written until the intent is gone. An
//! intent never ends by time, since a commit can be held up for longer than any time that could be named: it ends with
//! the transaction, or when a reader that meets an old one asks Postgres what became of it (`pg_xact_status`).
//!
//! # Settings
//!
//! [`options`] puts [`Timeouts`] on every connection of a pool. They are part of the protocol: a holder that is stopped
//! inside a transaction keeps the fence row locked, and `idle_in_transaction_session_timeout` is what ends that.
//!
//! # Growth
//!
//! `stockade.fence` keeps one row per resource ever claimed. [`prune_rows`] and [`prune_floor`] remove old ones.

mod applying;
mod begin;
mod claim;
mod error;
mod install;
mod invalidations;
mod options;
mod outbox;
mod presence;
mod prune;
mod refusals;
mod registry;
mod relay;
mod settled;
mod strict;
#[cfg(test)]
mod tests;
mod tx;
mod vouching;
mod wanted;

pub use claim::{ClaimArgs, claim_forced};
pub use error::{CommitError, FenceError, RelayError};
pub use install::{SCHEMA, SCHEMA_VERSION, install};
pub use options::{Timeouts, options};
pub use prune::{PRUNE_PAUSE, Pruned, prune_floor, prune_rows};
pub use relay::Relay;
pub use settled::settled;
pub use tx::Tx;
