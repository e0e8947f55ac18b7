use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::CancellationToken;

use super::{scripts::Scripts, up::Up, wire::Wire};
use crate::redis::dial::Place;

/// One connection that passed its handshake.
pub(super) struct Connection {
    pub(super) wire: Arc<Wire>,
    pub(super) up: Up,
    pub(super) place: Place,
    pub(super) scripts: Scripts,
    pub(super) shifted: Arc<AtomicBool>,
    /// Cancelled when the connection broke or must not be used any more.
    pub(super) ended: CancellationToken,
}

impl Connection {
    /// Whether replies may have reached the wrong commands, see [`opening`](super::opening).
    pub(super) fn is_shifted(&self) -> bool {
        self.shifted.load(Ordering::Acquire)
    }
}
