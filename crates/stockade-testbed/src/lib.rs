//! Real `redis-server` and PostgreSQL children for tests and demonstrations, and the means to break them on purpose.
//!
//! ```no_run
//! # async fn example() -> stockade_testbed::Result<()> {
//! use stockade_testbed::{Fault, Proxy, RedisServer};
//!
//! let redis = RedisServer::start().await?;
//! let proxy = Proxy::start(redis.addr()).await?;
//! let url = proxy.url_for(&redis.url());
//!
//! redis.pause()?; // accepts connections and never answers
//! redis.resume()?;
//! proxy.set(Fault::DropReplies); // commands run, their answers are lost
//! redis.restart().await?; // the same port, empty
//! # Ok(())
//! # }
//! ```
//!
//! | for | use |
//! |---|---|
//! | one Redis; on request with a password, TLS, a primary to follow or a clock that can be stepped | [`RedisServer`], [`RedisBuilder`] |
//! | several independent Redis servers | [`RedisServer::start_many`] |
//! | a primary and two replicas under three sentinels, failovers, on request over TLS | [`SentinelGroup`] |
//! | a cluster of three primaries and three replicas, failovers, slots that move in steps, on request over TLS | [`RedisCluster`] |
//! | certificates of a private authority (feature `tls`) | `Certificates` |
//! | one PostgreSQL | [`PostgresServer`] |
//! | the commands that a Redis ran | [`RedisServer::calls`] |
//! | the leftovers of a test on any of these | [`RedisServer::until_nothing_is_left`], [`Leftovers`] |
//! | another process, often this program again, that is stopped and killed | [`ChildProcess`] |
//! | connections that hang, break or lose replies | [`Proxy`] |
//! | a wait for a condition, with a limit | [`eventually`] |
//!
//! Every server listens on a free TCP port of 127.0.0.1, keeps its files in a private folder of its own, and is ready
//! when `start` returns. It dies with the value that owns it, and with the owning process however that ends, `kill -9`
//! included (see below).
//!
//! # How children end
//!
//! Each server is started by a few lines of `sh`, the supervisor. It stays in a process group of its own and reads from
//! a pipe whose other end only the owner holds. End of file on the pipe means that the owner is gone. The supervisor
//! then kills the server with its children, removes the private folder and ends. So nothing depends on the owner's
//! cleaning up, and a stopped server is killed as well as a running one. Ctrl-C in a terminal does not reach the
//! servers, so an owner can shut down in its own order.
//!
//! # Which programs are used
//!
//! `redis-server`: `REDIS_SERVER`, then `PATH`, then the usual folders; a sentinel is the same program. PostgreSQL:
//! `PG_BIN`, then the folder of `postgres` on `PATH`, then the newest of `/usr/lib/postgresql/*/bin` and its like.
//! PostgreSQL refuses to run as root: there it runs as the user `postgres`, else as `nobody`. A clock that can be
//! stepped needs Linux and a C compiler.

mod account;
mod calls;
#[cfg(feature = "tls")]
mod certificates;
mod child;
mod child_process;
mod clock;
mod error;
mod eventually;
mod folder;
mod leftovers;
mod leftovers_of;
mod pg_template;
mod port;
mod postgres_server;
mod process_of;
mod program;
mod proxy;
mod redis_builder;
mod redis_cluster;
mod redis_server;
mod redis_start;
mod resp;
mod sentinel_group;
mod slot;
mod tls;
mod until;
mod watchdog;

#[cfg(feature = "tls")]
pub use certificates::Certificates;
pub use child_process::ChildProcess;
pub use error::{Error, Result};
pub use eventually::eventually;
pub use leftovers::Leftovers;
pub use postgres_server::{PostgresBuilder, PostgresServer};
pub use proxy::{Fault, Proxy};
pub use redis_builder::RedisBuilder;
pub use redis_cluster::{ClusterBuilder, RedisCluster};
pub use redis_server::RedisServer;
pub use sentinel_group::{SentinelBuilder, SentinelGroup};
pub use watchdog::Watchdog;
