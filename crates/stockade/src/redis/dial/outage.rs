use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whether a server is away. Locks and caches have connections of their own, and each reconnects by itself. This makes
/// the log say only once that the server is away, and once that it is back.
#[derive(Debug, Default)]
pub(in crate::redis) struct Outage(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    New,
    Up,
    Away {
        since: Instant,
        is_final: bool,
    },
}

/// What a new connection means for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum News {
    /// The first to this server.
    First,
    /// The first after the server was away for this long.
    Back(Duration),
    /// One more to a server that is connected already.
    None,
}

impl Outage {
    /// No connection could be made. Returns whether to log it: true for the first failure of an outage, and for the
    /// first one that only a change of the configuration mends.
    pub(in crate::redis) fn failed(&self, is_final: bool) -> bool {
        let mut state = self.0.lock();
        match *state {
            State::Away { is_final: known, .. } if known || !is_final => false,
            State::Away { since, .. } => {
                *state = State::Away { since, is_final };
                true
            }
            State::New | State::Up => {
                *state = State::Away { since: Instant::now(), is_final };
                true
            }
        }
    }

    /// A connection was made.
    pub(in crate::redis) fn connected(&self) -> News {
        match std::mem::replace(&mut *self.0.lock(), State::Up) {
            State::New => News::First,
            State::Up => News::None,
            State::Away { since, .. } => News::Back(since.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_once_whoever_meets_it() {
        let outage = Outage::default();
        assert_eq!([outage.connected(), outage.connected()], [News::First, News::None]);
        assert_eq!([false; 3].map(|is_final| outage.failed(is_final)), [true, false, false]);
        assert_eq!([true; 2].map(|is_final| outage.failed(is_final)), [true, false], "nothing but a change mends it");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!([outage.connected(), outage.connected()], [News::Back(Duration::from_secs(3)), News::None]);
        assert!(outage.failed(false));
    }
}
