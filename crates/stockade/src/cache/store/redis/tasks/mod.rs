//! The background tasks of a subscription.

pub(super) mod heartbeat;
pub(super) mod staleness_gauge;
pub(super) mod subscription_gauge;
pub(super) mod trust_gauge;
pub(super) mod write_probe;
