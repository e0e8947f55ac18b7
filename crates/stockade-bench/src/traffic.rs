//! The counters of a server.

use stockade_testbed::RedisServer;

use crate::contender::Failure;

/// How many scripts it has run so far.
pub(crate) async fn scripts(server: &RedisServer) -> Result<f64, Failure> {
    Ok(server.calls_of("evalsha").await? as f64)
}

/// How many seconds of a processor it has used so far.
pub(crate) async fn processor(server: &RedisServer) -> Result<f64, Failure> {
    let stats = server.command(&["INFO", "cpu"]).await?;
    let of = |name: &str| {
        let value = stats.lines().find_map(|line| line.strip_prefix(name)).ok_or("INFO cpu lacks a line")?;
        Ok::<f64, Failure>(value.trim().parse()?)
    };
    Ok(of("used_cpu_user:")? + of("used_cpu_sys:")?)
}
