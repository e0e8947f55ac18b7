/// Whether another server may be made the primary while this one runs, and what this one does in that case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Succession {
    /// As far as can be seen, no other server takes over.
    #[default]
    Never,
    /// It has replicas, but only a person promotes one of them.
    ByHand,
    /// It refuses writes soon after it has lost too many of its replicas.
    Bounded,
    /// It takes writes for as long as clients send them.
    Unbounded,
}

impl Succession {
    /// Read from INFO. Redis counts good replicas only if `min-replicas-to-write` and `min-replicas-max-lag` are both
    /// above zero. Before 7.0 scripts may write even without enough replicas.
    pub(crate) fn of(info: &str, has_sentinels: bool) -> Self {
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let counts = field("min_slaves_good_slaves").is_some();
        let major = field("redis_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if counts && major.is_some_and(|major| major >= 7) {
            Self::Bounded
        } else if counts || has_sentinels {
            Self::Unbounded
        } else if field("connected_slaves").is_some_and(|count| count != "0") {
            Self::ByHand
        } else {
            Self::Never
        }
    }

    /// Whether there may be another primary that this one does not know of.
    pub(crate) fn has_rival(self) -> bool {
        matches!(self, Self::Bounded | Self::Unbounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(info: &str) -> [Succession; 2] {
        [false, true].map(|sentinels| Succession::of(info, sentinels))
    }

    #[test]
    fn only_a_primary_that_counts_its_replicas_for_scripts_too_is_bounded() {
        let server =
            |version: &str, replication: &str| format!("redis_version:{version}\r\nrole:master\r\n{replication}\r\n");
        let counted = "connected_slaves:0\r\nmin_slaves_good_slaves:0";
        for version in ["7.0.0", "7.2.4", "10.1"] {
            assert_eq!(of(&server(version, counted)), [Succession::Bounded; 2]);
        }
        assert_eq!(of(&server("6.2.14", counted)), [Succession::Unbounded; 2]);
        assert_eq!(of(counted), [Succession::Unbounded; 2], "of unknown age");
        assert_eq!(of(&server("7.0.0", "connected_slaves:0")), [Succession::Never, Succession::Unbounded]);
        assert_eq!(of(&server("7.0.0", "connected_slaves:2")), [Succession::ByHand, Succession::Unbounded]);
    }
}
