use std::collections::BTreeMap;

use redis::Value;

/// The table of tags, as `tags.lua` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TagTable(BTreeMap<String, i64>);

/// Whether a value with tags is valid, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    /// There is no table, another one, or one of another run.
    Foreign,
    /// The value is older than the floor.
    BelowFloor,
    Invalidated,
}

impl TagTable {
    /// Reads the reply to ZRANGE with scores.
    pub(super) fn read(value: Value) -> Self {
        let members: Vec<(String, f64)> = redis::from_redis_value(value).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "scores are whole and below 2^53")]
        Self(members.into_iter().map(|(member, score)| (member, score as i64)).collect())
    }

    pub(super) fn epoch(&self, run: &str) -> Option<u64> {
        self.negated(&format!("e:{run}"))
    }

    /// The epoch of the table, whichever run it is of.
    pub(super) fn any_epoch(&self) -> Option<u64> {
        self.0.iter().find(|(member, _)| member.starts_with("e:")).map(|(_, score)| score.unsigned_abs())
    }

    fn negated(&self, member: &str) -> Option<u64> {
        self.0.get(member).map(|score| u64::try_from(-score).unwrap())
    }

    fn set(&mut self, member: &str, negated: u64) {
        self.0.insert(member.to_owned(), -i64::try_from(negated).unwrap());
    }

    /// Judges a value. `None` for a value without tags.
    pub(super) fn judge_unless_empty(&self, run: &str, stamp: Option<&str>, tags: &str) -> Option<Verdict> {
        (!tags.is_empty()).then(|| self.judge(run, stamp, tags))
    }

    fn judge(&self, run: &str, stamp: Option<&str>, tags: &str) -> Verdict {
        let (Some(epoch), Some(floor)) = (self.epoch(run), self.negated("f")) else { return Verdict::Foreign };
        let (of, newest) = stamp.unwrap().split_once(' ').unwrap();
        let (of, newest): (u64, u64) = (of.parse().unwrap(), newest.parse().unwrap());
        let stamps = tags.split('\n').filter_map(|tag| self.0.get(&format!("t:{tag}")));
        if of != epoch {
            Verdict::Foreign
        } else if floor > newest {
            Verdict::BelowFloor
        } else if stamps.into_iter().any(|stamp| stamp.unsigned_abs() > newest) {
            Verdict::Invalidated
        } else {
            Verdict::Holds
        }
    }

    /// The table that the next script of this run uses. If there is no table of the run, the script begins one with the
    /// epoch of `after`.
    pub(super) fn of_run(&self, run: &str, after: &Self) -> Self {
        if self.epoch(run).is_some() {
            return self.clone();
        }
        let mut begun = Self::default();
        begun.set(&format!("e:{run}"), after.epoch(run).unwrap_or_default());
        for member in ["n", "f", "h"] {
            begun.set(member, 0);
        }
        begun
    }

    /// The stamp that a load notes.
    pub(super) fn stamp(&self, run: &str) -> String {
        format!("{} {}", self.epoch(run).unwrap(), self.negated("n").unwrap())
    }

    /// The table after a value was stored that may be served for `longest` µs.
    pub(super) fn kept(mut self, longest: u64) -> Self {
        let known = self.negated("h").unwrap_or_default();
        self.set("h", known.max(longest));
        self
    }

    /// The table after a tag was invalidated at `now` by a cache whose values live for `longest` µs.
    pub(super) fn invalidated(mut self, tag: &str, now: u64, longest: u64) -> Self {
        let stamp = now.max(self.negated("n").unwrap() + 1);
        self.set("n", stamp);
        self.0.insert(format!("t:{tag}"), i64::try_from(stamp).unwrap());
        let longest = longest.max(self.negated("h").unwrap());
        let aged: Vec<i64> =
            self.0.values().copied().filter(|score| (1..=of(stamp - longest)).contains(score)).collect();
        if let Some(last) = aged.into_iter().max() {
            self.set("f", last.unsigned_abs());
            self.0.retain(|_, score| *score <= 0 || *score > last);
        }
        self
    }

    /// The table after all stamps were deleted.
    pub(super) fn forgotten(mut self) -> Self {
        if let Some(newest) = self.negated("n") {
            self.set("f", newest);
            self.0.retain(|_, score| *score <= 0);
        }
        self
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn of(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}
