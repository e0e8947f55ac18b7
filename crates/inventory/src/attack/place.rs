use sqlx::{PgPool, postgres::PgConnectOptions};
use stockade::{Locks, Redis};

use crate::lab::Lab;

/// The parts of the service that the attacks use.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pg: PgPool,
    pub(crate) options: PgConnectOptions,
    pub(crate) redis: Redis,
    pub(crate) locks: Locks,
    pub(crate) lab: Lab,
}
