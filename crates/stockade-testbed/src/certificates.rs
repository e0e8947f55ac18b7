//! Certificates for private servers.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::{Result, error::Error};

/// A private authority, and the certificates that it has signed for a server and for a client.
///
/// They live in memory; a server that uses them writes its own, and `authority.crt`, to its private folder.
#[derive(Clone)]
pub struct Certificates {
    authority: String,
    server: Signed,
    client: Signed,
}

#[derive(Clone)]
struct Signed {
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Certificates for a server at 127.0.0.1, also called `localhost`. Each call makes an authority of its own, which
    /// knows nothing of the others.
    ///
    /// # Errors
    ///
    /// When no key can be made.
    pub fn new() -> Result<Self> {
        Self::of_server(["127.0.0.1", "localhost"])
    }

    /// Certificates for a server of other names and addresses, for example one that clients at 127.0.0.1 must refuse.
    ///
    /// # Errors
    ///
    /// When a name is not valid, or no key can be made.
    pub fn of_server(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "stockade-testbed authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        // A server that follows or joins another is its client.
        let server = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Ok(Self {
            server: Signed::by(&authority, "stockade-testbed server", names, &server)?,
            client: Signed::by(&authority, "stockade-testbed client", vec![], &server[1..])?,
            authority: authority.pem(),
        })
    }

    /// The authority's certificate, as PEM. A client has to trust it.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// A client's certificate, as PEM.
    #[must_use]
    pub fn client_certificate_pem(&self) -> &str {
        &self.client.certificate
    }

    /// The key of the client's certificate, as PEM.
    #[must_use]
    pub fn client_key_pem(&self) -> &str {
        &self.client.key
    }

    /// Names of files, and their contents.
    pub(crate) fn files(&self) -> [(&'static str, &str); 3] {
        use crate::tls::{AUTHORITY, SERVER, SERVER_KEY};
        [(AUTHORITY, &self.authority), (SERVER, &self.server.certificate), (SERVER_KEY, &self.server.key)]
    }
}

impl Signed {
    fn by(
        authority: &CertifiedIssuer<'_, KeyPair>,
        name: &str,
        names: Vec<String>,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> Result<Self> {
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, authority).map_err(failed)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn failed(error: rcgen::Error) -> Error {
    Error::io("make certificates")(std::io::Error::other(error))
}
