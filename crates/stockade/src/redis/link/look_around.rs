use std::time::Duration;

use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

/// After so many turns of the scheduler, and of its timers, the driver of a connection has read what had arrived.
const TURNS: u32 = 3;
const TURN: Duration = Duration::from_millis(5);
/// How often at most.
const LOOKS: usize = 20;

/// Lets a process that was held up read what has arrived meanwhile, before it calls a connection silent. A look that
/// takes long shows that it is held up still: then it looks again.
pub(super) async fn look_around() {
    for _ in 0..LOOKS {
        let began = Instant::now();
        for _ in 0..TURNS {
            sleep(TURN).await;
            yield_now().await;
        }
        if began.elapsed() < TURN * TURNS * 2 {
            return;
        }
    }
}
