use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, PushInfo, aio::MultiplexedConnection};

use super::handshake_error::HandshakeError;

/// The limit for a whole handshake. It is longer than that of a command, so that a process without a server spends most
/// of its time in a connection attempt and not in the pause between two attempts: a server that thaws is found at once.
pub(in crate::redis) const HANDSHAKE: Duration = Duration::from_secs(2);

/// The most commands without a reply that a connection's driver is given, including those outside of the window. The
/// driver's own queue is as long, so starting a command never waits for a place in that queue.
pub(in crate::redis) const MAX_IN_FLIGHT: usize = 8192;

/// Called by a connection's driver for every push.
pub(in crate::redis) type PushFn = Box<dyn Fn(PushInfo) + Send + Sync>;

/// Opens a connection to one server. Nothing about the server has been checked yet.
pub(in crate::redis) async fn dial(
    info: &ConnectionInfo,
    push: Option<PushFn>,
) -> Result<MultiplexedConnection, HandshakeError> {
    // The time-out of redis-rs would drop a request's receiver, and redis-rs does not write a request without a
    // receiver: the commands on the connection would no longer be in the order of the calls.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(HANDSHAKE))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(MAX_IN_FLIGHT);
    let config = match push {
        Some(push) => config.set_push_sender(move |info: PushInfo| {
            push(info);
            Ok::<_, ()>(())
        }),
        None => config,
    };
    Client::open(info.clone())?.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| {
        let database = info.redis_settings().db();
        let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
        if HandshakeError::is_of_database(&error) {
            HandshakeError::Database { database }
        } else if hung_up && matches!(info.addr(), ConnectionAddr::Tcp(..)) {
            HandshakeError::HungUp
        } else {
            error.into()
        }
    })
}
