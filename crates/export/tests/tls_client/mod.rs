//! Authorities and certificates, a server that uses them, and a client with TLS by rustls.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, go_data, greet, option_bytes};
use crate::server::Running;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{option, reply};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
pub struct Certified {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for names (the first is the common name too) that ends with a year.
    pub fn sign(&self, names: &[&str], last_year: i32) -> Certified {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, names[0].as_str());
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Certified {
    /// Writes both files as `NAME-cert.pem` and `NAME-key.pem`, the names that GnuTLS clients use.
    pub fn write(&self, directory: &Path, name: &str) {
        let (certificate, key) = files(directory, name);
        std::fs::write(&certificate, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// Where the certificate and the key of a name are.
pub fn files(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{name}-cert.pem")), directory.join(format!("{name}-key.pem")))
}

/// The line `tls = ...` for a directory with `server-cert.pem`, `server-key.pem` and `ca-cert.pem`.
pub fn tls_line(directory: &Path, with_client_ca: bool) -> String {
    let (certificate, key) = files(directory, "server");
    let ca = directory.join("ca-cert.pem");
    let ca = if with_client_ca { format!(", client_ca = {ca:?}") } else { String::new() };
    format!("tls = {{ certificate = {certificate:?}, key = {key:?}{ca} }}\n")
}

/// A year in which the certificates of these tests are valid.
pub const FUTURE: i32 = 4000;

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

pub const DEVICE: &str = "[[device]]\nname = \"m\"\nmemory = \"128MiB\"\n\
                      [[device.export]]\nname = \"a\"\nbacking = \"memory:64MiB\"\n\
                      [[device.export]]\nname = \"b\"\nbacking = \"memory:64MiB\"\n";

/// A server with TLS on TCP and without on its unix socket, and the authority behind it.
pub struct Fixture {
    pub authority: Authority,
    pub directory: TempDir,
    pub server: Running,
}

impl Fixture {
    /// Clients need no certificate.
    pub fn open() -> Self {
        Self::new(false, "")
    }

    /// Clients need a certificate; `listen` has further lines for the listener and tables behind it.
    pub fn mutual(listen: &str) -> Self {
        Self::new(true, listen)
    }

    /// `listen` has further lines for the listener and tables behind it.
    pub fn new(with_client_ca: bool, listen: &str) -> Self {
        let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
        authority.sign(&["localhost", "127.0.0.1"], FUTURE).write(directory.path(), "server");
        std::fs::write(directory.path().join("ca-cert.pem"), authority.pem()).unwrap();
        let tls = tls_line(directory.path(), with_client_ca);
        let server = Running::with(&format!("{DEVICE}[[listen]]\ntcp = \"127.0.0.1:0\"\n{tls}{listen}"));
        Self { authority, directory, server }
    }

    pub fn address(&self) -> SocketAddr {
        let status = self.server.status();
        let listeners = status["listeners"].as_array().unwrap();
        let tcp = listeners.iter().find_map(|it| it["address"].as_str().unwrap().strip_prefix("tcp:"));
        tcp.unwrap().parse().unwrap()
    }

    /// A connection that has not begun TLS.
    pub fn plain(&self) -> Client<TcpStream> {
        plain(self.address())
    }

    pub fn config(&self, certified: Option<&Certified>) -> ClientConfig {
        client_config(&self.authority.pem(), certified, &[&version::TLS13, &version::TLS12])
    }

    /// A client without a certificate, ready for options.
    pub fn client(&self) -> Client<Secure> {
        secure(self.address(), self.config(None), "localhost")
    }

    pub fn client_with(&self, certified: &Certified) -> Client<Secure> {
        secure(self.address(), self.config(Some(certified)), "localhost")
    }

    pub fn await_no_connections(&self) {
        self.server.await_that("all places are given back", |status| {
            status["listeners"].as_array().unwrap().iter().all(|it| it["connections"] == 0)
                && status["connections"].as_array().unwrap().is_empty()
        });
    }

    pub fn assert_serves(&self) {
        self.client().opened("a", ReplyForm::Structured).assert_alive();
    }
}

pub fn plain(address: SocketAddr) -> Client<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    greet(&mut stream, 3);
    Client::over(stream)
}

pub fn client_config(
    ca: &str,
    own: Option<&Certified>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap()).unwrap()
        }
    }
}

/// Begins TLS after STARTTLS.
pub fn secure(address: SocketAddr, config: ClientConfig, name: &'static str) -> Client<Secure> {
    begin(plain(address), config, name)
}

/// Begins TLS on any connection.
pub fn begin<S: Read + Write>(
    mut client: Client<S>,
    config: ClientConfig,
    name: &'static str,
) -> Client<StreamOwned<ClientConnection, S>> {
    assert_eq!(client.last(option::STARTTLS, &[]), reply::ACK);
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap()).unwrap();
    Client::over(StreamOwned::new(connection, client.stream))
}

/// Tries to open an export; the error if TLS fails on the way.
pub fn attempt(address: SocketAddr, config: ClientConfig, name: &'static str) -> io::Result<()> {
    let mut client = secure(address, config, name);
    client.stream.write_all(&option_bytes(option::GO, &go_data("a")))?;
    client.stream.read_exact(&mut [0; 20])
}

pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u64 >> 3).wrapping_mul(0x9e37_79b9).to_le_bytes()[at & 3] ^ seed).collect()
}
