use std::time::Duration;

use rand::Rng;
use tokio::time::sleep;

use super::{link::RoutedLink, server::ServerState};
use crate::{clock::Instant, redis::LinkError, resource::Bucket};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause while a connection is lost, or nodes don't agree: either takes moments.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause while a slot moves, which can take minutes: many attempts ask for keys of it.
const LONGEST_MOVE: Duration = Duration::from_millis(500);

/// How long a command looks for the server that can execute it.
///
/// All keys of a command must be on one server. While a slot moves, they seldom are: a key that does not exist counts
/// as already moved. Neither server then executes the command, until the whole slot has moved.
#[derive(Debug)]
pub(crate) struct Redirects {
    /// `None` without limit.
    until: Option<Instant>,
    /// Until this time, a lost connection is no reason to give up.
    reconnecting: Instant,
    pause: Duration,
    moves: u32,
    /// Whether the connection was lost after a sending.
    has_lost: bool,
}

impl Redirects {
    /// The limit is at least the command time-out.
    pub(crate) fn new<S>(link: &RoutedLink<S>, until: Option<Instant>) -> Self {
        let least = Instant::now() + link.timeout;
        let until = until.map(|until| until.max(least));
        Self { until, reconnecting: least, pause: FIRST_PAUSE, moves: 0, has_lost: false }
    }

    /// Whether to try again with the command, which was not executed. Waits until it is time to do so.
    pub(crate) async fn follow<S: ServerState>(&mut self, link: &RoutedLink<S>, error: &LinkError) -> bool {
        let has_moved = match error {
            LinkError::Moved => true,
            LinkError::Moving => false,
            _ => return false,
        };
        let left = self.until.map_or(Duration::MAX, Instant::remaining);
        if left.is_zero() || link.is_retired() {
            return false;
        }
        if has_moved {
            self.moves += 1;
            link.asked_again(left).await;
        }
        // The first MOVED says where to go. A second one means that the nodes don't agree yet.
        if !has_moved || self.moves > 1 {
            let longest = if has_moved { LONGEST_PAUSE } else { LONGEST_MOVE };
            self.rest(left, longest).await;
        }
        // From the next sending on, which the pause may have put off for longer than this.
        self.reconnecting = Instant::now() + link.timeout;
        true
    }

    /// Whether to try again after a connection was lost, for a command in this bucket that was not executed or may be
    /// executed twice. A node that gives a slot away makes all clients reconnect, whatever slot their commands were
    /// for. The connection comes back at once.
    pub(crate) async fn reconnect<S: ServerState>(
        &mut self,
        link: &RoutedLink<S>,
        bucket: Bucket,
        error: &LinkError,
    ) -> bool {
        let left = self.reconnecting.remaining();
        self.has_lost |= matches!(error, LinkError::Lost);
        let gone = match error {
            LinkError::Lost | LinkError::Down => true,
            // The commands lost with the connection opened the breaker, perhaps those of others: a node to which there
            // is no connection yet has refused too many. The next connection closes it.
            LinkError::Open { .. } => self.has_lost || link.of(bucket).is_some_and(|server| server.link.is_up_soon()),
            _ => false,
        };
        if !gone || !link.may_move() || left.is_zero() || link.is_retired() {
            return false;
        }
        link.suspect(error);
        self.rest(left, LONGEST_PAUSE).await;
        true
    }

    async fn rest(&mut self, most: Duration, longest: Duration) {
        let pause = self.pause.min(longest).mul_f64(rand::rng().random_range(0.5..=1.0));
        sleep(pause.min(most)).await;
        self.pause = (self.pause * 2).min(longest);
    }
}
