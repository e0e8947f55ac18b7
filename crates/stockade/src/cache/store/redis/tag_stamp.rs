use redis::Value;

/// The state of the table of tags when the lease of a value was given, before the value was loaded: the table's epoch
/// and the newest stamp in it. See `tags.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TagStamp {
    pub(super) epoch: u64,
    pub(super) newest: u64,
}

impl TagStamp {
    /// Whether a value with this stamp is still valid. `scores` are read from the table: the scores of the epoch, the
    /// floor, and each tag of the value.
    pub(super) fn holds(self, scores: Value) -> bool {
        let Value::Array(scores) = scores else { return false };
        let mut scores = scores.into_iter().map(score);
        // The table stores these two scores negated. If one is missing, it is another table.
        let (Some(Some(epoch)), Some(Some(floor))) = (scores.next(), scores.next()) else { return false };
        whole(-epoch) == Some(self.epoch)
            && whole(-floor).is_some_and(|floor| floor <= self.newest)
            && scores.all(|stamp| stamp.is_none_or(|stamp| whole(stamp).is_some_and(|stamp| stamp <= self.newest)))
    }
}

fn score(value: Value) -> Option<f64> {
    match value {
        Value::Nil => None,
        Value::Double(score) => Some(score),
        // With a score that can't be read, the value is not valid.
        value => Some(redis::from_redis_value(value).unwrap_or(f64::INFINITY)),
    }
}

/// The score as a whole number. Scores of the table are below 2^53, which a double holds exactly.
fn whole(score: f64) -> Option<u64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range and whole")]
    (score.fract() == 0.0 && (0.0..LIMIT).contains(&score)).then_some(score as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(scores: &[Option<f64>]) -> Value {
        Value::Array(scores.iter().map(|score| score.map_or(Value::Nil, Value::Double)).collect())
    }

    #[test]
    fn a_value_holds_while_its_table_is_the_same_and_none_of_its_tags_is_newer() {
        let stamp = TagStamp { epoch: 77, newest: 1_763_747_000_000_000 };
        let table = [Some(-77.0), Some(-5.0)];
        let with = |tags: &[Option<f64>]| stamp.holds(scores(&[&table, tags].concat()));
        assert!(with(&[None, None]));
        assert!(with(&[Some(1_763_747_000_000_000.0), None]));
        assert!(!with(&[None, Some(1_763_747_000_000_001.0)]));
        assert!(!with(&[Some(f64::INFINITY)]) && !with(&[Some(0.5)]));
        assert!(!stamp.holds(scores(&[None, Some(-5.0), None])), "another run's table");
        assert!(!stamp.holds(scores(&[Some(-78.0), Some(-5.0), None])), "a table that was begun anew");
        assert!(!stamp.holds(scores(&[Some(-77.0), Some(-1_763_747_000_000_001.0), None])), "below the floor");
        assert!(!stamp.holds(scores(&[Some(-77.0)])) && !stamp.holds(Value::Nil));
    }
}
