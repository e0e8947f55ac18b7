//! How a server uses certificates.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

pub(crate) const AUTHORITY: &str = "authority.crt";
pub(crate) const SERVER: &str = "server.crt";
pub(crate) const SERVER_KEY: &str = "server.key";

/// The settings of a server with TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    /// Names of files, and their contents.
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) asks_clients: bool,
}

impl Tls {
    /// Arguments for TLS on the port and towards other servers, with no other way in but the socket.
    pub(crate) fn args(&self, port: u16, folder: &Path) -> Vec<OsString> {
        let file = |name| folder.join(name).into_os_string();
        let asks = if self.asks_clients { "yes" } else { "no" };
        vec![
            "--port".into(),
            "0".into(),
            "--tls-port".into(),
            port.to_string().into(),
            "--tls-ca-cert-file".into(),
            file(AUTHORITY),
            "--tls-cert-file".into(),
            file(SERVER),
            "--tls-key-file".into(),
            file(SERVER_KEY),
            "--tls-auth-clients".into(),
            asks.into(),
            "--tls-replication".into(),
            "yes".into(),
            "--tls-cluster".into(),
            "yes".into(),
            "--unixsocket".into(),
            socket(folder).into(),
            "--unixsocketperm".into(),
            "700".into(),
        ]
    }
}

/// The socket on which the testbed reaches a server that speaks only TLS. It needs no certificate.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}
