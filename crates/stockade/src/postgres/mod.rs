//! Fences and invalidations in Postgres. They keep data right when a lock cannot.
//!
//! A lease can end while its holder still works: the process was stopped, a clock jumped, or the lock store failed
//! over. [`Fence::begin`](crate::Fence::begin) therefore starts the transaction by *claiming* the fence row of the
//! resource. The claim writes the ownership's `(token, owner)` into the row, unless a newer ownership wrote there
//! before. The row stays locked until the transaction ends. So a holder that is no longer the newest is refused before
//! it reads anything.
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
//! In a handler, [`WriteError`] takes the errors of all three steps by `?`, and is the response.
//!
//! # Why the claim is a statement of its own
//!
//! If two holders both read before either writes, an update is lost even if each write is checked. So the claim comes
//! before the first protected read. The claim must also be a *separate* statement. Under READ COMMITTED a statement
//! reads from a snapshot that Postgres takes when the statement starts. A statement that waits for the row lock of its
//! predecessor and then reads would read the data from before the predecessor's commit. The next statement sees the
//! commit. [`Tx`] always runs READ COMMITTED, whatever the default of the database.
//!
//! # Invalidations
//!
//! [`Tx::invalidate`] binds an invalidation to its transaction: [`Tx::commit`] writes it to an outbox in the same
//! transaction, and drops the cached value right after COMMIT. If a crash, a time-out or an outage of the cache
//! prevents that, the [`Relay`] of any process drops the value later. A transaction that rolls back invalidates
//! nothing.
//!
//! # Strict caches
//!
//! A cache built with [`CacheBuilder::strict`](crate::cache::CacheBuilder::strict) is told of a write *before* COMMIT,
//! by an intent that names the transaction. The cache serves no value with an intent. An intent never expires, because
//! a commit can be held up for any time. It ends with its transaction. A reader that finds an old intent asks Postgres
//! whether the transaction has ended (`pg_xact_status`), and ends the intent if so.
//!
//! # Settings
//!
//! [`options`] puts [`Timeouts`] on every connection of a pool. They are part of the protocol: a holder that is stopped
//! inside a transaction keeps the fence row locked until `idle_in_transaction_session_timeout` ends its transaction.
//!
//! # Growth
//!
//! `stockade.fence` keeps one row per resource ever claimed. Old rows are not removed by themselves: call
//! [`prune_rows`] and [`prune_floor`] once a day.

mod applying;
mod begin;
mod claim;
mod commit;
mod error;
mod gauges;
mod group_commit;
mod install;
mod invalidations;
mod new_run;
mod options;
mod outbox;
mod presence;
mod prune;
mod refusals;
mod registry;
mod relay;
mod relaying;
mod replay;
mod settled;
pub(crate) mod sqlstate;
mod strict;
#[cfg(test)]
mod tests;
mod tx;
mod vouching;
mod wanted;

pub use claim::{ClaimArgs, claim_forced};
pub use error::{CommitError, FenceError, RelayError, WriteError};
pub use group_commit::{GroupCommit, GroupWrite};
pub use install::{SCHEMA, SCHEMA_VERSION, install};
pub use options::{Timeouts, on_primary, options};
pub use prune::{PRUNE_PAUSE, Pruned, prune_floor, prune_rows};
pub use relay::Relay;
pub use settled::settled;
pub use tx::Tx;
