/// Whether another server may be made the primary while this one runs, and what this one does then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Succession {
    /// As far as anybody can tell, none is.
    #[default]
    Never,
    /// It has replicas, of which none is made the primary unless somebody does so by hand.
    ByHand,
    /// It refuses writes soon after too few replicas are left with it.
    Bounded,
    /// It takes writes for as long as somebody sends them.
    Unbounded,
}

impl Succession {
    /// By the words of INFO. Redis counts good replicas only where `min-replicas-to-write` and `min-replicas-max-lag`
    /// are both above zero, and before 7.0 lets scripts write without them.
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

    /// Whether there may be another primary of which this one hears nothing.
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
