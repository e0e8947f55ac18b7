//! Flash sales: a script in Redis gives units away without a lock, and Postgres has the last word.
//!
//! A sale takes units out of stock once, under the lock of the SKU. From then on one script decides each reservation:
//! units left, units of the customer, repetition, and an entry in a stream, in one step. Consumers, one in each
//! instance, store entries in Postgres in batches, and then remove them from the stream. The end gives unsold units
//! back.
//!
//! # Interleavings
//!
//! Each item names what goes wrong, and the rule that prevents it:
//!
//! - **Acknowledged, then killed.** A consumer removes entries from the stream, then dies before its COMMIT:
//!   reservations are lost. So removal comes after COMMIT (`consumer`).
//! - **Stored twice.** A consumer dies between COMMIT and removal, another one reads the entries again. So the id of a
//!   reservation is a primary key, looked up under the lock of the sale's row (`carry`).
//! - **Forgotten by a restart.** Redis comes back without its last seconds: its counter does not know units that are
//!   stored. So a counter is used only in the run of the server in which it was made: the script compares the run
//!   (`lua/reserve.lua`), and another run makes a counter from Postgres first (`reconcile`).
//! - **Promoted again.** A primary is replaced by a replica that lacks its last writes, follows it, and is promoted
//!   again: the process that made the counter, with the data of the other. So a run of the server is its run id
//!   together with its replication id, which changes with each promotion (`lua/run.lua`).
//! - **In the stream, not stored.** A counter made from Postgres alone would give the units of these entries away
//!   again. So it is made once the stream is empty, and nothing is let in meanwhile (`lua/enter.lua`).
//! - **In a consumer's hands while Redis is emptied.** The stream is empty, the counter is made, and then the consumer
//!   stores what it had read: the counter is too high. So each counter begins a generation in Postgres, and entries of
//!   an earlier one are rejected (`carry`). They count as lost with that Redis.
//! - **Two make the counter.** A slow caller would put an old number over a counter in use. So only the caller that
//!   entered last has the nonce, and only a caller that read a generation before it entered begins the next one.
//! - **A late script of an earlier sale.** It would diminish the counter of this sale. So the script is told its sale,
//!   and refuses every other one. Entries name their sale too.
//! - **Killed while closing.** Units are given back twice, or never. So the end has two steps: `closing`, which any
//!   instance goes on with, and one transaction that closes and gives back.
//! - **Removed by the id of another entry.** A stream that was lost begins again. If the clock of Redis was set back
//!   too, a new entry may get the id of a lost one, and a consumer that stored the lost one removes the new one, which
//!   nobody stored. So an entry is removed only if it has the words that the consumer has read (`lua/settle.lua`).
//! - **Hours until a death is noticed.** If the clock of Redis was set back, a counter that was left half made, and an
//!   entry of a consumer that died, stay young until the clock has caught up. So a negative age counts as expired
//!   (`lua/enter.lua`), and a consumer that finds nothing to read while entries wait claims them after 3 s by its own
//!   clock (`consumer`). A sale ends by the clock of Redis: later if that clock is behind.
//! - **Rejected in the place of its repetition.** A consumer holds an entry that Redis has lost; the client repeats its
//!   request, and the next counter lets it in under the same id. The old entry is rejected, and the new one taken for
//!   its repetition, so a 201 was answered and nothing is stored. So a rejection stands only for entries of its counter
//!   and of those before: the new entry is decided again, and a request that waits for it is not told of the rejection.
//! - **Postgres has lost the newest generation.** After a failover to a replica that lacks it, every reservation of the
//!   counter would be rejected. A counter is made after its generation is committed. So if Postgres, asked after Redis,
//!   shows an earlier one, the counter is stopped and made again (`reconcile`). The next counter gets a number that no
//!   counter had: under a lost number reservations were rejected, and their repetitions would be rejected with them.
//! - **Postgres has lost the end of a sale.** Redis lets nobody in, and Postgres calls the sale open. Redis closes a sale
//!   after `closing` is committed. So if Postgres, asked after Redis, shows an open sale, it is closed again
//!   (`reconcile`).
//! - **Redis has lost the end of a sale.** After a failover, or a restart from older data, Redis calls the sale open,
//!   and Postgres calls it, or a later one, closed. So no keeper tends it: buyers would be told to come back, and its
//!   data would stay until the next sale of the SKU. A process that does not know the sale asks Postgres, and closes it
//!   again (`desk`).
//! - **An old primary that still takes writes.** Both primaries give away the same units. Postgres stores no more than
//!   the opened units, and rejects the rest.

mod answer;
mod breaker;
mod carry;
mod close;
mod consumer;
mod counter;
mod desk;
mod error;
mod keeper;
mod keys;
mod link;
mod reconcile;
mod reservation;
mod sale;
mod script;
mod stream;
mod waiters;

pub(crate) use answer::Answer;
pub(crate) use close::reference;
#[cfg(feature = "demo")]
pub(crate) use consumer::Consumer;
pub use desk::{Flash, FlashSettings};
pub(crate) use error::FlashError;
pub(crate) use keeper::keep;
pub(crate) use link::{Link, LinkError};
pub(crate) use reservation::Made;
pub use reservation::{Asked, Name, Reservation, sale_of};
pub use sale::{Sale, SaleId, Stage};
