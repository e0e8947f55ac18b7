use sqlx::PgPool;

use crate::{
    conservation::check,
    console,
    orders::OrderLine,
    replay::{Counters, Replay},
};

/// Prints every check; whether all of them hold.
pub(super) async fn verify(pool: &PgPool, lines: &[OrderLine], replay: &Replay) -> Result<bool, sqlx::Error> {
    let told: Vec<_> = lines.iter().zip(replay.verdicts.iter().copied()).collect();
    let conservation = check(pool, &told).await?;
    console::out(&conservation.to_string());

    let exclusive = exclusion(replay.report.fleet);
    console::out(exclusive.as_ref().map_or_else(String::as_str, |()| "exclusion: ok (no write refused by the fence)"));

    let lines = &replay.report.lines;
    let answered = lines.failed + lines.unknown == 0;
    console::out(&if answered {
        "answers: ok (every order line applied or refused)".to_owned()
    } else {
        format!("answers: VIOLATED: {} order lines failed, {} of unknown outcome", lines.failed, lines.unknown)
    });
    Ok(conservation.holds() && exclusive.is_ok() && answered)
}

/// Nothing was broken on purpose here, so the fence may have had nothing to refuse. Locks that were lost without that
/// did no harm; beside a refusal they say how it came about.
fn exclusion(fleet: Option<Counters>) -> Result<(), String> {
    match fleet {
        None => Err("exclusion: UNKNOWN: the counts of the instances are missing".to_owned()),
        Some(Counters { fence_rejected: 0, .. }) => Ok(()),
        Some(Counters { fence_rejected, locks_lost, .. }) => Err(format!(
            "exclusion: VIOLATED: the fence refused {fence_rejected} writes of holders that were not alone; \
             {locks_lost} locks lost"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_counts_nobody_knows_whether_the_fence_refused_a_write() {
        assert!(exclusion(None).is_err_and(|told| told.contains("UNKNOWN")));
        assert_eq!(exclusion(Some(Counters { locks_lost: 1, ..Counters::default() })), Ok(()));
        let refused = Counters { fence_rejected: 2, locks_lost: 1, ..Counters::default() };
        assert!(exclusion(Some(refused)).is_err_and(|told| told.contains("refused 2 writes")));
    }
}
