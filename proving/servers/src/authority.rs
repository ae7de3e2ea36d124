//! Certificate authorities of the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

use crate::TlsFiles;

/// A certificate authority, whose files are in a directory of its own.
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The file with its own certificate.
    pub pem: PathBuf,
}

impl Authority {
    /// An authority that is known to nobody.
    pub fn new(name: &str) -> Self {
        Self::of(CertifiedIssuer::self_signed(of_authority(name), KeyPair::generate().unwrap()).unwrap())
    }

    /// An authority whose certificate is from this one.
    pub fn below(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self::of(CertifiedIssuer::signed_by(of_authority(name), key, &self.issuer).unwrap())
    }

    fn of(issuer: CertifiedIssuer<'static, KeyPair>) -> Self {
        let directory = TempDir::new().unwrap();
        let pem = directory.path().join("authority.pem");
        fs::write(&pem, issuer.pem()).unwrap();
        Self { directory, issuer, pem }
    }

    /// A certificate for a host or a user, and its key, in files of this name.
    pub fn certify(&self, name: &str) -> TlsFiles {
        self.sign(name, CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// The same with a certificate that has expired.
    pub fn certify_expired(&self, name: &str) -> TlsFiles {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(name, params)
    }

    /// The same with a certificate that is an authority's, as `openssl req -x509` makes it.
    pub fn certify_as_authority(&self, name: &str) -> TlsFiles {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(name, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let file = |ending: &str| self.directory.path().join(format!("{name}.{ending}"));
        let files = TlsFiles::new(file("pem"), file("key"));
        fs::write(&files.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        files
    }
}

fn of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
