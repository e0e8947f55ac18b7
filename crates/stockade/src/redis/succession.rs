/// Whether another server may be made the primary while this one runs, and what this one does then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Succession {
    /// As far as anybody can tell, none is.
    #[default]
    Never,
    /// It refuses writes soon after too few replicas are left with it.
    Bounded,
    /// It takes writes for as long as somebody sends them.
    Unbounded,
}

impl Succession {
    /// By the words of INFO. Redis counts good replicas only where `min-replicas-to-write` and `min-replicas-max-lag` are both
    /// above zero.
    pub(crate) fn of(info: &str, has_sentinels: bool) -> Self {
        if info.lines().any(|line| line.starts_with("min_slaves_good_slaves:")) {
            Self::Bounded
        } else if has_sentinels {
            Self::Unbounded
        } else {
            Self::Never
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_primary_that_counts_its_replicas_is_bounded() {
        let counted = "role:master\r\nconnected_slaves:0\r\nmin_slaves_good_slaves:0\r\n";
        assert_eq!([false, true].map(|sentinels| Succession::of(counted, sentinels)), [Succession::Bounded; 2]);
        let alone = "role:master\r\nconnected_slaves:0\r\n";
        assert_eq!(Succession::of(alone, false), Succession::Never);
        assert_eq!(Succession::of(alone, true), Succession::Unbounded);
    }
}
