use super::{
    operation::Operation,
    reply::Reply,
    seen::Seen,
    tag_table::{TagTable, Verdict},
};

/// A reader is told of an intent that is older than this, in µs, so that it asks whether the transaction is over.
const OVERDUE: u64 = 2_000_000;

/// The expected reply of a call, and the expected state after it.
#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) word: &'static str,
    /// Why the reply is this one, if it can have several reasons.
    pub(super) why: &'static str,
    pub(super) seen: Seen,
}

impl Oracle {
    fn new(word: &'static str, seen: Seen) -> Self {
        Self { word, why: "", seen }
    }

    fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// The expectation for a call. The number of a new epoch, of the table or of the cache, is taken from `after`.
    pub(super) fn of(step: &Operation, before: &Seen, reply: &Reply, after: &Seen) -> Self {
        let now = reply.now;
        let (same, dropped) = (before.essence(), before.dropped());
        match step {
            Operation::Lease { .. } if !before.intents.is_empty() => {
                bypassed(before, reply);
                Self::new("BYPASS", same)
            }
            Operation::Lease { .. } => lease(step, before, reply, after),
            Operation::Fill { token, .. }
                if before.token.as_ref() == Some(token)
                    && before.intents.is_empty()
                    && before.token_epoch != before.epoch =>
            {
                Self::new("OUTDATED", same).because("of another epoch")
            }
            Operation::Fill { token, value, ttl, grace, tags, run }
                if before.token.as_ref() == Some(token) && before.intents.is_empty() =>
            {
                let verdict = before.table.judge_unless_empty(run, before.noted.as_deref(), tags);
                if verdict.is_some_and(|verdict| verdict != Verdict::Holds) {
                    return Self::new("OUTDATED", same).because(why(verdict));
                }
                let mut seen = Seen { sequence: before.sequence, ..dropped };
                seen.tags.clone_from(tags);
                if verdict.is_some() {
                    seen.stamp.clone_from(&before.noted);
                    seen.table = seen.table.kept((ttl + grace + Operation::LONGEST_LEASE) * 1000);
                }
                let (value, fresh_until, loaded_at) = (Some(value.clone()), now + ttl * 1000, now);
                let seen = Seen { value, fresh_until, loaded_at, value_epoch: before.epoch, ..seen };
                Self::new("ACCEPTED", seen).because(why(verdict))
            }
            Operation::Abort { token, hold, counts, unstorable } if before.token.as_ref() == Some(token) => {
                let seen = Seen { token: None, noted: None, leased_until: 0, token_epoch: 0, ..same };
                let until = now + hold * 1000;
                let seen = match (*hold > 0, unstorable) {
                    (false, _) => seen,
                    (true, true) => Seen { free_until: until, ..seen },
                    (true, false) => Seen { held_until: until, failures: before.failures + u64::from(*counts), ..seen },
                };
                Self::new("ABORTED", Seen { waiting: [].into(), ..seen })
            }
            Operation::Fill { .. } | Operation::Abort { .. } => Self::new("REFUSED", same),
            Operation::Read { run } => match (before.verdict(run), &before.value) {
                (_, None) => Self::new("ABSENT", same),
                _ if before.value_epoch != before.epoch => Self::new("OUTDATED", same).because("of another epoch"),
                (None, _) => Self::new("UNTAGGED", same),
                (Some(Verdict::Holds), _) => Self::new("HOLDS", same),
                (verdict, _) => Self::new("OUTDATED", same).because(why(verdict)),
            },
            Operation::Invalidate => Self::new("DROPPED", dropped),
            Operation::InvalidateTag { tag, longest, run, .. } => {
                let table = before.table.of_run(run, &after.table);
                let left = table.clone().invalidated(tag, now, *longest);
                let why = match (table == before.table, left.len() < table.len()) {
                    (false, _) => "a table is begun",
                    (true, true) => "some are forgotten",
                    (true, false) => "",
                };
                let tag_sequence = before.tag_sequence + 1;
                assert_eq!(reply.rest, [tag_sequence.to_string()]);
                Self::new("DROPPED", Seen { table: left, tag_sequence, ..same }).because(why)
            }
            Operation::Clear { known } => {
                let epoch = now.max(before.epoch + 1).max(known + 1);
                assert_eq!(reply.rest, [epoch.to_string()]);
                Self::new("CLEARED", Seen { epoch, ..same })
            }
            Operation::LoseEpoch { marker: false } => Self::new("LOST", Seen { epoch: 0, ..same }),
            Operation::LoseEpoch { marker: true } => {
                Self::new("LOST", Seen { epoch: 0, marker: String::new(), ..same })
            }
            Operation::Lose => Self::new("LOST", Seen { table: TagTable::default(), marker: String::new(), ..same }),
            Operation::Forget => Self::new("FORGOTTEN", Seen { table: before.table.clone().forgotten(), ..same }),
            Operation::Begin { intent, transaction } => {
                let mut intents = before.intents.clone();
                intents.insert(intent.clone(), (transaction.to_string(), now));
                Self::new("BEGUN", Seen { intents, ..dropped })
            }
            Operation::End { intent } => {
                let mut intents = before.intents.clone();
                let word = if intents.remove(intent).is_some() { "ENDED" } else { "MISSING" };
                Self::new(word, Seen { intents, ..dropped })
            }
            Operation::Join { run, longest, known } => {
                let epoch = before.next_epoch(*known, after.epoch);
                assert_eq!(reply.rest, [epoch.to_string()]);
                let same = Seen { epoch, ..same };
                let known = before.marker.strip_prefix(&format!("{run} ")).and_then(|rest| rest.split_once(' '));
                match known {
                    Some((_, "t")) => Self::new("TRUSTED", same),
                    Some((since, _)) if now - since.parse::<u64>().unwrap() > longest * 1000 => {
                        Self::new("TRUSTED", same).because("it has served for long")
                    }
                    Some((_, "r")) => Self::new("REPLACING", same),
                    Some(_) => Self::new("UNTRUSTED", same),
                    None => {
                        let is_first = before.marker.is_empty() && before.epoch == 0;
                        let (word, state) = if is_first { ("UNTRUSTED", "u") } else { ("REPLACING", "r") };
                        Self::new(word, Seen { marker: format!("{run} {now} {state}"), ..same }).because("new")
                    }
                }
            }
            Operation::Trust { run } => match before.marker.strip_prefix(&format!("{run} ")) {
                Some(rest) => {
                    let since = rest.split_once(' ').unwrap().0;
                    Self::new("TRUSTED", Seen { marker: format!("{run} {since} t"), ..same })
                }
                None => Self::new("REFUSED", same),
            },
            Operation::Beat { known } => {
                let epoch = before.next_epoch(*known, after.epoch);
                Self::new("BEAT", Seen { epoch, ..same }).because(begun(before, epoch))
            }
        }
    }
}

fn bypassed(before: &Seen, reply: &Reply) {
    let overdue = before.intents.iter().filter(|(_, (_, started))| started + OVERDUE < reply.now);
    let mut expected: Vec<_> = overdue.map(|(id, (xid, _))| [id.clone(), xid.clone()]).collect();
    let mut told: Vec<_> = reply.rest.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
    expected.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, expected, "intents that stand for long");
}

/// The expectation for a lease while no intent stands.
fn lease(step: &Operation, before: &Seen, reply: &Reply, after: &Seen) -> Oracle {
    let Operation::Lease { token, lease, process, early, content, longest, run, known } = step else { unreachable!() };
    let epoch = before.next_epoch(*known, after.epoch);
    let (now, same) = (reply.now, Seen { epoch, ..before.essence() });
    let is_of_another = before.value.is_some() && before.value_epoch != epoch;
    let verdict = before.verdict(run).filter(|_| !is_of_another);
    let why = |verdict| if is_of_another { "of another epoch" } else { why(verdict) };
    let outdated = is_of_another || verdict.is_some_and(|verdict| verdict != Verdict::Holds);
    // An invalid value counts as dropped, together with its hold.
    let value = before.value.as_ref().filter(|_| !outdated);
    let held_until = if outdated { 0 } else { before.held_until };
    let is_given = || {
        let stamp = before.stamp.as_deref().unwrap_or_default();
        assert_eq!(reply.rest, value.map_or(["", "", ""], |value| [value, &before.tags, stamp]));
    };
    let half = before.loaded_at.midpoint(before.fresh_until);
    let is_young = *early && *content && half > now;
    if value.is_some() && (is_young || !early && before.fresh_until > now) {
        is_given();
        return Oracle::new("HIT", same).because(if is_young { "loaded since" } else { why(verdict) });
    }
    if before.free_until > now && before.free_until - now <= 1_000_000 {
        assert!(reply.rest.is_empty(), "no intent stands");
        return Oracle::new("BYPASS", same).because("its value can't be stored");
    }
    let is_held = held_until > now && held_until - now <= longest * 1000;
    if is_held && (*content || (!early && value.is_some())) {
        is_given();
        return Oracle::new("HELD", same).because(why(verdict));
    }
    if is_held && before.failures > 1 {
        assert_eq!(reply.rest, [(held_until - now).to_string()], "how long it is held");
        return Oracle::new("FAILING", same).because(why(verdict));
    }
    let is_loading = before.token.is_some() && before.leased_until > now;
    let may_be_over = is_loading && before.leased_until - now > lease * 1000 + 1_000_000;
    if is_loading && !may_be_over && before.token_epoch == epoch {
        let mut waiting = before.waiting.clone();
        waiting.insert((*process).to_owned());
        return Oracle::new("WAIT", Seen { waiting, ..same }).because(why(verdict));
    }
    is_given();
    let table = before.table.of_run(run, &after.table);
    let why = match () {
        () if may_be_over => "over a load from before the clock was set back",
        () if is_loading => "over a load of another epoch",
        () if table == before.table => why(verdict),
        () => "a table is begun",
    };
    let (token, noted) = (Some(token.clone()), Some(table.stamp(run)));
    let leased_until = now + lease * 1000;
    // An invalid value goes, so that the hold of this load counts if the load fails.
    let same = if outdated { same.without_value() } else { same };
    Oracle::new("LEASED", Seen { token, noted, leased_until, token_epoch: epoch, table, ..same }).because(why)
}

fn begun(before: &Seen, epoch: u64) -> &'static str {
    match before.epoch {
        0 => "an epoch is begun",
        known if known < epoch => "an epoch is told",
        _ => "",
    }
}

fn why(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        None => "",
        Some(Verdict::Holds) => "its tags hold",
        Some(Verdict::Foreign) => "of another table",
        Some(Verdict::BelowFloor) => "below the floor",
        Some(Verdict::Invalidated) => "its tag was invalidated",
    }
}
