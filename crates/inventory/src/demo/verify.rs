use sqlx::PgPool;

use crate::{conservation::check, console, orders::OrderLine, replay::Replay};

/// Prints every check; whether all of them hold.
pub(super) async fn verify(pool: &PgPool, lines: &[OrderLine], replay: &Replay) -> Result<bool, sqlx::Error> {
    let told: Vec<_> = lines.iter().zip(replay.verdicts.iter().copied()).collect();
    let conservation = check(pool, &told).await?;
    console::out(&conservation.to_string());

    // Nothing was broken on purpose here, so nobody may have lost a lock, and the fence may have had nothing to refuse.
    let (refused, lost) = replay.report.fleet.map_or((0, 0), |fleet| (fleet.fence_rejected, fleet.locks_lost));
    let exclusive = refused == 0;
    console::out(&if exclusive {
        "exclusion: ok (no write refused by the fence)".to_owned()
    } else {
        format!(
            "exclusion: VIOLATED: the fence refused {refused} writes of holders that were not alone; {lost} locks lost"
        )
    });

    let lines = &replay.report.lines;
    let answered = lines.failed + lines.unknown == 0;
    console::out(&if answered {
        "answers: ok (every order line applied or refused)".to_owned()
    } else {
        format!("answers: VIOLATED: {} order lines failed, {} of unknown outcome", lines.failed, lines.unknown)
    });
    Ok(conservation.holds() && exclusive && answered)
}
