use std::fmt;

/// Why a holder no longer owns its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out.
    Expired,
    /// The resource is not ours any more although our lease had time left: somebody else owns it, or the store can't
    /// say why. On a cluster the reason may also be a forced release right after the first lock of a process in a
    /// bucket, when the process only begins to listen to that bucket.
    Stolen,
    /// An administrator forced the release.
    Forced,
    /// The store was restarted empty, or failed over, and no longer has our lock.
    StoreLostData,
    /// The ownership was handed over, and belongs to the process that adopts it.
    HandedOver,
    /// Its guard gave it back. Only fences can tell this, since they may outlive their guard.
    Released,
}

impl LossReason {
    /// The metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Stolen => "stolen",
            Self::Forced => "forced",
            Self::StoreLostData => "store_lost_data",
            Self::HandedOver => "handed_over",
            Self::Released => "released",
        }
    }
}

/// Writes [`LossReason::as_str`].
impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
