//! Reads the certificates and keys of the listeners, at the start and at each reload.
//!
//! Clients are asked for a certificate if and only if the listener has a `client_ca`. Sessions are not
//! resumed: each connection proves anew who it is, and a reload takes effect for the next one.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use hoistway_linux::input::{Ceiling, bytes};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::outside_validity;
use super::ec_key::with_whole_scalar;
use crate::configuration::{Address, Configuration, Problem, Sourced, Tls};

/// Permission bit of a file that every user can read.
const READABLE_BY_OTHERS: u32 = 0o004;

/// The credentials of all listeners with TLS.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Vec<(Address, Arc<ServerConfig>)>);

impl Credentials {
    /// Reads the files of every listener with TLS; also returns warnings about them.
    ///
    /// # Errors
    /// Each file that cannot be read or used.
    pub fn read(configuration: &Configuration) -> Result<(Self, Vec<String>), Vec<Problem>> {
        let (mut all, mut warnings, mut problems) = (Self::default(), Vec::new(), Vec::new());
        for listener in &configuration.listeners {
            let Some(tls) = &listener.tls else { continue };
            match server_config(tls, &mut warnings) {
                Ok(config) => all.0.push((listener.address.value.clone(), Arc::new(config))),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok((all, warnings)) } else { Err(problems) }
    }

    /// The credentials of a listener.
    pub fn of(&self, address: &Address) -> Option<&Arc<ServerConfig>> {
        self.0.iter().find(|(known, _)| known.is_same_place(address)).map(|(_, config)| config)
    }
}

fn server_config(tls: &Tls, warnings: &mut Vec<String>) -> Result<ServerConfig, Problem> {
    let chain = certificates(&tls.certificate)?;
    if let Some(wrong) = chain.first().and_then(|certificate| outside_validity(certificate)) {
        warnings.push(format!("the certificate {} {wrong}: clients refuse it", tls.certificate.value.display()));
    }
    let key = private_key(&tls.key, warnings)?;
    let provider = Arc::new(ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider.clone());
    let versions = versions.with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| wrong(&tls.certificate, "cannot be used", error, USE))?;
    let clients = match &tls.client_ca {
        Some(path) => versions.with_client_cert_verifier(verifier(path, provider)?),
        None => versions.with_no_client_auth(),
    };
    let config = clients.with_single_cert(chain, key);
    let mut config = config.map_err(|error| wrong(&tls.certificate, "cannot be used with its key", error, USE))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

const USE: &str = "certificate is the server's certificate with its intermediates behind it, key the key that it was \
                   made for";

fn verifier(
    path: &Sourced<PathBuf>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Problem> {
    let help = "give the PEM file of the authority that signs the certificates of clients";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| wrong(path, "holds a certificate that cannot be used", error, help))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| wrong(path, "cannot be used", error, help))
}

fn wrong(path: &Sourced<PathBuf>, what: &str, error: impl std::fmt::Display, help: &str) -> Problem {
    Problem::new(&path.place, format!("{} {what}: {error}", path.value.display()), help)
}

fn read(path: &Sourced<PathBuf>) -> Result<Vec<u8>, Problem> {
    let help = "the paths of tls are those of PEM files, which the server must be able to read";
    // The thread that reads must not wait for the writer of a pipe.
    let is_file = std::fs::metadata(&path.value).map(|metadata| metadata.is_file());
    let content = is_file.and_then(|is_file| match is_file {
        true => bytes(&path.value, Ceiling::CERTIFICATES),
        false => Err(std::io::Error::other("it is not a regular file")),
    });
    content.map_err(|error| wrong(path, "cannot be read", error, help))
}

fn certificates(path: &Sourced<PathBuf>) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let help = "a PEM file of certificates begins with -----BEGIN CERTIFICATE-----";
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let chain = chain.map_err(|error| wrong(path, "is not PEM", error, help))?;
    if chain.is_empty() {
        return Err(Problem::new(&path.place, format!("{} holds no certificate", path.value.display()), help));
    }
    Ok(chain)
}

fn private_key(path: &Sourced<PathBuf>, warnings: &mut Vec<String>) -> Result<PrivateKeyDer<'static>, Problem> {
    let help = "a PEM file of a key that has no passphrase begins with -----BEGIN PRIVATE KEY-----";
    let key = PrivateKeyDer::from_pem_slice(&read(path)?);
    let key = key.map_err(|error| wrong(path, "holds no private key", error, help))?;
    if std::fs::metadata(&path.value).is_ok_and(|metadata| metadata.mode() & READABLE_BY_OTHERS != 0) {
        warnings.push(format!("every user can read the key {}: chmod o-r takes that away", path.value.display()));
    }
    Ok(with_whole_scalar(key))
}
