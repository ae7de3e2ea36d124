//! The settings that a server is started with.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crate::{Flavor, Server};

/// A server that has not been started yet; made by [`Server::setup`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Setup {
    pub(crate) flavor: Flavor,
    pub(crate) password: Option<String>,
    /// The user and password of the tests, if the default user is off.
    pub(crate) login: Option<(String, String)>,
    pub(crate) unix_socket: bool,
    /// True for a sentinel.
    pub(crate) sentinel: bool,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    lines: Vec<String>,
}

/// The PEM files of a server with TLS.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The server's certificate, with the chain to its authority.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// The authority of client certificates, which a client must present if there is one.
    pub client_authority: Option<PathBuf>,
}

impl TlsFiles {
    /// A certificate and its key; clients need no certificate.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_authority: None }
    }

    /// Refuses clients without a certificate of this authority.
    pub fn client_authority(mut self, authority: impl Into<PathBuf>) -> Self {
        self.client_authority = Some(authority.into());
        self
    }
}

impl Setup {
    pub(crate) fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            password: None,
            login: None,
            unix_socket: false,
            sentinel: false,
            tls: None,
            environment: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Starts the server.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::launch(self)
    }

    /// Adds a configuration setting, with or without dashes: `.arg("--maxmemory", "1mb")`. It is
    /// written to the file as given, so several words are several values.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        let value = if value.is_empty() { "\"\"" } else { value };
        self.lines.push(format!("{} {value}", name.trim_start_matches('-')));
        self
    }

    /// An environment variable of the server process.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// The password of the default user, which [`Server::command`] uses.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The user that [`Server::command`] logs in as if the default user is off.
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Adds a user with these ACL rules: `.acl_user("app", "on >secret ~invoice:* +get")`.
    pub fn acl_user(self, name: &str, rules: &str) -> Self {
        self.arg("user", &format!("{name} {rules}"))
    }

    /// Keeps an append-only file: data survives [`Server::kill_9`] and [`Server::restart`].
    pub fn append_only(self) -> Self {
        self.arg("appendonly", "yes")
    }

    /// Listens on a Unix socket too: [`Server::unix_path`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Makes it a sentinel: the same program with settings that say what it watches.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Accepts only TLS on [`Server::port`]. Adds a Unix socket, which [`Server::command`] uses.
    ///
    /// # Panics
    ///
    /// For every flavor but [`Flavor::Redis70`]: the other programs are built without TLS.
    #[track_caller]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        assert!(
            self.flavor == Flavor::Redis70,
            "{} is built without TLS; only {} has it",
            self.flavor,
            Flavor::Redis70
        );
        self.tls = Some(files);
        self.unix_socket()
    }

    /// The configuration file.
    pub(crate) fn configuration(&self, port: u16, unix_path: &Path) -> String {
        let mut text = String::from("bind 127.0.0.1\nsave \"\"\n");
        let mut line = |name: &str, value: &dyn AsRef<OsStr>| {
            // Quoted, because a path or a password may contain a space.
            let value = value.as_ref().to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
            writeln!(text, "{name} \"{value}\"").expect("writing to a String does not fail");
        };
        match &self.tls {
            None => line("port", &port.to_string()),
            Some(files) => {
                line("port", &"0");
                line("tls-port", &port.to_string());
                line("tls-cert-file", &files.certificate);
                line("tls-key-file", &files.key);
                match &files.client_authority {
                    Some(authority) => line("tls-ca-cert-file", authority),
                    None => line("tls-auth-clients", &"no"),
                }
            }
        }
        if self.unix_socket {
            line("unixsocket", &unix_path);
        }
        if let Some(password) = &self.password {
            line("requirepass", password);
        }
        for extra in &self.lines {
            text.push_str(extra);
            text.push('\n');
        }
        text
    }
}
