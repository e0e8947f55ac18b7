use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open beside the connections of both ports and those to Postgres: connections to Redis, between instances and
/// of the lab, listeners, the log.
const OTHERS: u64 = 256;

/// Raises the soft limit of open files, which is usually 1,024, to what so many connections need. At the limit an
/// instance could take no connection and make none to Postgres or Redis, so idle clients alone would stop it.
pub(super) fn allow_for(clients: usize, database: u32) {
    let clients = u64::try_from(clients).unwrap_or(u64::MAX);
    let needed = clients.saturating_add(u64::from(database) + OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current.filter(|soft| *soft < needed) else { return };
    let most = maximum.map_or(needed, |hard| hard.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
    let limit = if raised.is_ok() { most } else { soft };
    if limit < needed {
        tracing::warn!(
            limit,
            needed,
            "too few files may be open for so many connections: raise the hard limit (`ulimit -n`) or lower MAX_CONNECTIONS"
        );
    }
}
