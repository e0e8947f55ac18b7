use std::time::Duration;

use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

/// After this many turns of the scheduler and its timers, the connection's driver has read all that had arrived.
const TURNS: u32 = 3;
const TURN: Duration = Duration::from_millis(5);
/// The most repetitions.
const LOOKS: usize = 20;

/// Lets a process that was held up read what has arrived meanwhile, before it calls a connection silent. If a round
/// takes long, the process is still held up, and another round follows.
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
