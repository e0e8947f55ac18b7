//! The background tasks of a subscription.

pub(super) mod heartbeat;
pub(super) mod subscription_gauges;
pub(super) mod trust_gauge;
pub(super) mod write_probe;
