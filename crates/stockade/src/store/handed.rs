use std::time::Duration;

use super::{Mode, Owner, Ownership, Token};
use crate::{clock::Instant, resource::Key};

/// What another process needs to take over an ownership.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) key: Key,
    /// The owner until the ownership is adopted.
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
}

impl Handed {
    pub(crate) fn of(ownership: &Ownership) -> Self {
        Self {
            key: ownership.key.clone(),
            owner: ownership.owner.clone(),
            mode: ownership.mode(),
            token: ownership.token,
            lease: ownership.lease,
        }
    }

    pub(crate) fn ownership(&self, owner: Owner, token: Token, deadline: Instant) -> Ownership {
        Ownership::new(self.key.clone(), owner, self.mode, token, self.lease, deadline, None)
    }
}
