/// The primary, in the words of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis::dial) struct Address {
    pub(in crate::redis::dial) host: String,
    pub(in crate::redis::dial) port: u16,
    /// Grows with every failover that a majority of the sentinels has agreed to.
    pub(super) epoch: u64,
}

impl Address {
    pub(super) fn same_place(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

/// The primary of the latest failover. `None` if sentinels name different ones.
pub(super) fn latest(answers: &[Address]) -> Option<&Address> {
    let latest = answers.iter().max_by_key(|address| address.epoch)?;
    let is_same = |other: &Address| other.epoch < latest.epoch || other.same_place(latest);
    answers.iter().all(is_same).then_some(latest)
}

/// The primary that a majority names, unless one sentinel alone knows of a later failover.
pub(super) fn agreed(answers: &[Address], majority: usize) -> Option<&Address> {
    let latest = answers.iter().map(|address| address.epoch).max()?;
    let is_agreed = |address: &&Address| answers.iter().filter(|other| other.same_place(address)).count() >= majority;
    answers.iter().filter(|address| address.epoch == latest).find(is_agreed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::redis::dial::sentinel) fn at(host: &str, epoch: u64) -> Address {
        Address { host: host.to_owned(), port: 6379, epoch }
    }

    #[test]
    fn sentinels_contradict_one_another_only_about_the_latest_failover() {
        assert_eq!(latest(&[at("old", 4), at("new", 5)]), Some(&at("new", 5)));
        assert_eq!(latest(&[at("new", 5), at("other", 5), at("old", 4)]), None);
        assert_eq!(latest(&[]), None);
    }

    #[test]
    fn a_majority_that_does_not_know_of_the_last_failover_agrees_on_nothing() {
        let (old, new) = (at("old", 4), at("new", 5));
        let agreed = |answers: &[&Address]| {
            let answers: Vec<_> = answers.iter().copied().cloned().collect();
            agreed(&answers, 2).cloned()
        };
        assert_eq!(agreed(&[&old, &old, &new]), None, "two have not heard of it yet");
        assert_eq!(agreed(&[&old, &new, &new]), Some(new.clone()));
        assert_eq!(agreed(&[&old, &old]), Some(old.clone()));
        assert_eq!(agreed(&[&new]), None, "a minority");
        let watched = at("new", 4);
        assert_eq!(agreed(&[&watched, &old, &watched]), Some(watched), "no failover was made");
    }
}
