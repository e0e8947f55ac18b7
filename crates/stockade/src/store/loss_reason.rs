/// Why a holder no longer owns its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out.
    Expired,
    /// It is not ours any more although our lease had time left: somebody else owns it, or the store can't say why. On
    /// a cluster that may be a force right after the first lock of a process in a bucket, while it only begins to
    /// listen.
    Stolen,
    /// An administrator forced it.
    Forced,
    /// The store was restarted empty or failed over and no longer knows us.
    StoreLostData,
    /// It was handed over, and belongs to who adopts it.
    HandedOver,
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
        }
    }
}
