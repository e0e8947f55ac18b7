use stockade::Redis;

use super::StartError;
use crate::config::{Config, Secret, shown_url};

/// Connects to the server, the sentinels or the cluster at `url`, which `variable` named.
pub(super) async fn connect(
    variable: &'static str,
    url: &Secret,
    config: &Config,
    may_evict: bool,
) -> Result<Redis, StartError> {
    let builder = Redis::builder(url.expose()).command_timeout(config.redis_timeout);
    let builder = if may_evict { builder.allow_eviction() } else { builder };
    builder.connect().await.map_err(|source| StartError::Redis { variable, url: shown_url(url), source })
}
