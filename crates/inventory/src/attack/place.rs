use sqlx::{PgPool, postgres::PgConnectOptions};
use stockade::{Locks, Redis};

use crate::lab::Lab;

/// The connections and locks that the attacks share with the service.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) pg: PgPool,
    pub(crate) options: PgConnectOptions,
    pub(crate) redis: Redis,
    pub(crate) locks: Locks,
    pub(crate) lab: Lab,
}
