use std::io;

use futures_util::future::join_all;
use redis::{ConnectionAddr, ConnectionInfo};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use {
    redis::{Client, ClientTlsConfig, RedisError, TlsCertificates},
    rustls::{AlertDescription, CertificateError, crypto::CryptoProvider},
    std::{error::Error, fmt, sync::Arc},
};

use crate::redis::ConnectError;

/// The remedy for a server without TLS.
#[cfg(feature = "tls")]
pub(in crate::redis) const NO_TLS: &str =
    "the server does not speak TLS on this port: use its `tls-port`, or `redis://`";

/// The remedy for a server that speaks only TLS.
pub(in crate::redis) const ONLY_TLS: &str = "the server speaks only TLS on this port: write `rediss://` (`rediss-sentinel://`, \
                                   `rediss-cluster://`), or use its port without TLS";

/// Which authorities to trust over TLS, and which certificate to show.
///
/// By default, the authorities of the operating system are trusted and no certificate is shown.
#[cfg(feature = "tls")]
#[derive(Clone, Default)]
pub struct TlsOptions {
    roots: Option<Vec<u8>>,
    client: Option<ClientTlsConfig>,
}

/// Without the feature `tls` there are no options.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(in crate::redis) enum TlsOptions {}

#[cfg(feature = "tls")]
impl TlsOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities (certificates in PEM) instead of those of the operating system.
    #[must_use]
    pub fn root_certificates(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { roots: Some(pem.into()), ..self }
    }

    /// Shows this certificate to a server that asks for one. Certificate and key are in PEM; intermediate certificates
    /// follow the certificate. The key may be PKCS#8, PKCS#1 or SEC1.
    #[must_use]
    pub fn client_certificate(self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let client = ClientTlsConfig { client_cert: certificate.into(), client_key: key.into() };
        Self { client: Some(client), ..self }
    }

    fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, ConnectError> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};

        let holds_certificates =
            |pem: &[u8]| CertificateDer::pem_slice_iter(pem).next().is_some_and(|first| first.is_ok());
        if self.roots.as_deref().is_some_and(|pem| !holds_certificates(pem)) {
            return Err(ConnectError::config("the root certificates are not PEM (`-----BEGIN CERTIFICATE-----`)"));
        }
        if self.client.as_ref().is_some_and(|client| !holds_certificates(&client.client_cert)) {
            return Err(ConnectError::config("the client certificate is not PEM (`-----BEGIN CERTIFICATE-----`)"));
        }
        let certificates = TlsCertificates { client_tls: self.client.clone(), root_cert: self.roots.clone() };
        // The parser's message is left out, since it may quote what the parser read.
        Client::build_with_tls(info, certificates)
            .map(|client| client.get_connection_info().clone())
            .map_err(|_| ConnectError::config("the certificates or the key of `TlsOptions` can't be read"))
    }
}

/// Shows which options are set, never their contents.
#[cfg(feature = "tls")]
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("root_certificates", &self.roots.is_some())
            .field("client_certificate", &self.client.is_some())
            .finish()
    }
}

/// What a connection needs besides an address.
pub(super) fn prepare(info: ConnectionInfo, options: Option<&TlsOptions>) -> Result<ConnectionInfo, ConnectError> {
    match info.addr() {
        ConnectionAddr::TcpTls { .. } if !cfg!(feature = "tls") => Err(ConnectError::Feature { feature: "tls" }),
        ConnectionAddr::TcpTls { insecure: true, .. } => Err(ConnectError::config(
            "a connection that checks no certificate is not supported: name the authority with `TlsOptions`",
        )),
        ConnectionAddr::TcpTls { .. } => {
            #[cfg(feature = "tls")]
            have_provider();
            match options {
                #[cfg(feature = "tls")]
                Some(options) => options.apply(info),
                #[cfg(not(feature = "tls"))]
                Some(never) => match *never {},
                None => Ok(info),
            }
        }
        _ if options.is_some() => Err(ConnectError::config(
            "`TlsOptions` are given for a connection without TLS: write `rediss://` for `redis://`",
        )),
        _ => Ok(info),
    }
}

/// If several crypto providers are compiled in, rustls chooses none by itself and panics when a connection is made.
#[cfg(feature = "tls")]
fn have_provider() {
    if CryptoProvider::get_default().is_none() {
        // This fails if another thread installed a provider first, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Whether the server at a TLS address answers without TLS. A server without TLS takes the beginning of a TLS handshake
/// for an incomplete command, and waits for the rest.
#[cfg(feature = "tls")]
pub(in crate::redis) async fn is_plain(addr: &ConnectionAddr) -> bool {
    let ConnectionAddr::TcpTls { host, port, .. } = addr else { return false };
    matches!(first_byte(host, *port, b"PING\r\n").await, Ok(b'+' | b'-'))
}

/// Whether a server at these addresses, which are used without TLS, speaks TLS.
pub(in crate::redis) async fn is_wanted(places: &[ConnectionInfo]) -> bool {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    let ask = async |place: &ConnectionInfo| {
        let ConnectionAddr::Tcp(host, port) = place.addr() else { return false };
        matches!(first_byte(host, *port, &client_hello()).await, Ok(ALERT | HANDSHAKE))
    };
    join_all(places.iter().map(ask)).await.contains(&true)
}

/// The beginning of a TLS 1.2 handshake, as short as possible: 32 zeros as random bytes, no session, three ciphers, no
/// extensions. A server that speaks TLS answers with a TLS record, whether it accepts or refuses.
fn client_hello() -> Vec<u8> {
    let (head, ciphers) = ([22, 3, 1, 0, 49, 1, 0, 0, 45, 3, 3], [0, 6, 0xc0, 0x2f, 0xc0, 0x2b, 0, 0x2f, 1, 0]);
    [&head[..], &[0; 33], &ciphers].concat()
}

async fn first_byte(host: &str, port: u16, question: &[u8]) -> io::Result<u8> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.writable().await?;
    stream.try_write(question)?;
    stream.readable().await?;
    let mut answer = [0];
    match stream.try_read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer[0]),
    }
}

/// What is wrong with TLS and how to mend it. `None` if the error is not about TLS.
#[cfg(feature = "tls")]
pub(in crate::redis) fn explain(error: &RedisError) -> Option<String> {
    let shared = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    let inner = shared.downcast_ref::<io::Error>()?.get_ref()?;
    let error = inner.downcast_ref::<rustls::Error>()?;
    let remedy = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "name the authority that signed the server's certificate with `TlsOptions::root_certificates`, or its file with \
             the environment variable SSL_CERT_FILE"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "connect by a name that the server's certificate has, or give it one with this name",
        rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "renew the server's certificate"
        }
        rustls::Error::InvalidCertificate(_) => "check the server's certificate",
        rustls::Error::InvalidMessage(_) => NO_TLS,
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown,
        ) => "show a certificate that the server accepts with `TlsOptions::client_certificate`",
        _ => "check the TLS settings of both sides",
    };
    Some(format!("{error}: {remedy}"))
}
