use std::time::Duration;

use super::{Mode, Owner, Ownership, Token};
use crate::{clock::Instant, resource::Key};

/// What another process needs to take over an ownership. It has the same lock and the same fence, under an owner of its
/// own.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) key: Key,
    /// The owner until the ownership is adopted.
    pub(crate) owner: Owner,
    pub(crate) fence_owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
}

impl Handed {
    pub(crate) fn of(ownership: &Ownership) -> Self {
        Self {
            key: ownership.key.clone(),
            owner: ownership.owner.clone(),
            fence_owner: ownership.fence_owner.clone(),
            mode: ownership.mode(),
            token: ownership.token,
            lease: ownership.lease,
        }
    }

    pub(crate) fn ownership(&self, owner: Owner, deadline: Instant) -> Ownership {
        let ownership = Ownership::new(self.key.clone(), owner, self.mode, self.token, self.lease, deadline, None);
        ownership.known_to_fences_as(self.fence_owner.clone())
    }
}
