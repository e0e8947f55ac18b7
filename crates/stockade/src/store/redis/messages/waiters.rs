use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::{
    resource::Key,
    store::{Owner, redis::acquire::Mailbox},
};

/// The attempts of this process that a message may be about.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<HashMap<Owner, Entry>>);

#[derive(Debug)]
struct Entry {
    /// `None` if the attempt was given up and its cancel has not been answered yet.
    mailbox: Option<Arc<Mailbox>>,
    key: Key,
}

/// The attempt that a message was about.
pub(super) enum Recipient {
    /// A waiter, which got the message.
    Waiter,
    /// An attempt that was given up, for this resource.
    GivenUp(Key),
    /// No attempt of this process has that owner.
    Nobody,
}

impl Waiters {
    /// Enters an attempt, unless there are `most` already. Returns how many there were before.
    pub(crate) fn insert(&self, owner: &Owner, key: &Key, mailbox: &Arc<Mailbox>, most: usize) -> usize {
        let mut table = self.0.lock();
        let before = table.len();
        if before < most {
            table.insert(owner.clone(), Entry { mailbox: Some(Arc::clone(mailbox)), key: key.clone() });
        }
        before
    }

    pub(crate) fn remove(&self, owner: &Owner) {
        self.0.lock().remove(owner);
    }

    /// Whether there is no attempt, neither waiting nor given up.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Marks the attempt as given up. A grant that still arrives must be cancelled.
    pub(crate) fn give_up(&self, owner: &Owner, key: &Key) {
        self.0.lock().insert(owner.clone(), Entry { mailbox: None, key: key.clone() });
    }

    pub(super) fn post(&self, owner: &Owner, post: impl FnOnce(&Key, &Mailbox)) -> Recipient {
        match self.0.lock().get(owner) {
            Some(Entry { mailbox: Some(mailbox), key }) => {
                post(key, mailbox);
                Recipient::Waiter
            }
            Some(Entry { mailbox: None, key }) => Recipient::GivenUp(key.clone()),
            None => Recipient::Nobody,
        }
    }

    /// Posts to every waiter on a resource for which `wanted` is true.
    pub(crate) fn post_all(&self, wanted: impl Fn(&Key) -> bool, post: impl Fn(&Mailbox)) {
        let table = self.0.lock();
        let wanted = table.values().filter(|entry| wanted(&entry.key));
        wanted.filter_map(|entry| entry.mailbox.as_ref()).for_each(|mailbox| post(mailbox));
    }
}
