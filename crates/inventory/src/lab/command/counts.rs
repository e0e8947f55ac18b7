use sqlx::PgPool;
use stockade_testbed::RedisServer;

use super::{Failure, scheme::Scheme};

/// The counts of the servers so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) commands: u64,
    pub(super) statements: u64,
}

impl Counts {
    /// The commands of this scheme on all of these servers, and the statements in the database.
    pub(super) async fn take(scheme: Scheme, servers: &[&RedisServer], postgres: &PgPool) -> Result<Self, Failure> {
        let mut commands = 0;
        for server in servers {
            let calls = server.calls().await?;
            commands += scheme.commands().iter().filter_map(|command| calls.get(*command)).sum::<u64>();
        }
        let sum = "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where query not like '%pg_stat%'";
        let statements: i64 = sqlx::query_scalar(sum).fetch_one(postgres).await?;
        Ok(Self { commands, statements: u64::try_from(statements)? })
    }
}
