//! Freezes and kills the processes of servers.

use std::net::SocketAddr;

use crate::{PostgresServer, RedisServer, Result};

/// A Redis and a PostgreSQL are found, frozen and killed alike.
macro_rules! process_of {
    ($($server:ty),+) => {$(
        impl $server {
            /// The address that it listens on, also after a restart.
            #[must_use]
            pub fn addr(&self) -> SocketAddr {
                self.port.addr()
            }

            /// The TCP port; the same over restarts.
            #[must_use]
            pub fn port(&self) -> u16 {
                self.port.number()
            }

            /// The id of the server's process, 0 while it is killed. Of PostgreSQL it is the postmaster's.
            #[must_use]
            pub fn pid(&self) -> u32 {
                self.process.pid()
            }

            /// Freezes the server and its children (SIGSTOP): the system goes on accepting connections for it, and
            /// nothing is answered.
            ///
            /// # Errors
            ///
            /// When the server was killed.
            pub fn pause(&self) -> Result<()> {
                self.process.pause()
            }

            /// Lets a frozen server go on (SIGCONT).
            ///
            /// # Errors
            ///
            /// When the server was killed.
            pub fn resume(&self) -> Result<()> {
                self.process.resume()
            }

            /// Kills the server and its children (SIGKILL), frozen or not, and waits until they are gone. Does nothing
            /// when it is killed already.
            ///
            /// # Errors
            ///
            /// When one of them is still there after 30 s.
            pub async fn kill(&self) -> Result<()> {
                self.process.kill().await
            }
        }
    )+};
}

process_of!(RedisServer, PostgresServer);
