use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, PushInfo, aio::MultiplexedConnection};

use super::handshake_error::HandshakeError;

/// A handshake may take this long in all. Longer than a command may, so that most of the time without a server is spent
/// in a connection that waits for it rather than between two attempts: a server that thaws is found at once.
pub(in crate::redis) const HANDSHAKE: Duration = Duration::from_secs(2);

/// The most commands that are handed to a connection's driver without a reply, those outside of the window included.
/// The driver's own queue is as long, so that starting a command never has to wait for a place in it.
pub(in crate::redis) const MAX_IN_FLIGHT: usize = 8192;

/// Called by a connection's driver for every push.
pub(in crate::redis) type PushFn = Box<dyn Fn(PushInfo) + Send + Sync>;

/// A connection to one server, about which nothing is known yet.
pub(in crate::redis) async fn dial(
    info: &ConnectionInfo,
    push: Option<PushFn>,
) -> Result<MultiplexedConnection, HandshakeError> {
    // The crate's own response time-out would drop a request's receiver, and a request without one is not written:
    // the order of commands on the connection would no longer be that of the calls.
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
