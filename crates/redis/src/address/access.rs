//! Credentials and TLS settings for logging in to a server.

use std::fmt;
use std::fs::File;
use std::io::{Read, Take};
use std::path::{Path, PathBuf};

use redis::{Cmd, RedisConnectionInfo, cmd};

use super::channels::Channels;

/// The settings of every connection, to any server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) db: u32,
    pub(crate) protocol: Protocol,
    /// `None` for plain text.
    pub(crate) tls: Option<Tls>,
    pub(crate) channels: Channels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, or RESP2 if the server refuses RESP3.
    Either,
    Resp2,
    Resp3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The PEM file of the trusted authorities; `None` for those of the system.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) identity: Option<Identity>,
}

/// The PEM files of a client certificate and of its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    Text(Password),
    /// Read for each connection, so that it can be changed while the program runs.
    File(PathBuf),
}

/// A password, which `Debug` never shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// No real password or key is longer.
const LONGEST: u64 = 64 * 1024;

impl Access {
    /// The current password.
    ///
    /// A user without one needs none; but the protocol requires an argument.
    pub(crate) fn password(&self) -> Result<Option<Password>, String> {
        match &self.password {
            Some(Secret::Text(password)) => Ok(Some(password.clone())),
            Some(Secret::File(file)) => match password_in(file) {
                Ok(password) => Ok(Some(password)),
                Err(reason) => Err(format!("password-file={}: {reason}", file.display())),
            },
            None => Ok(self.user.as_ref().map(|_| Password(String::new()))),
        }
    }

    /// The login that redis-rs sends when it connects.
    pub(crate) fn login(&self, password: Option<&Password>) -> RedisConnectionInfo {
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let login = self.user.iter().fold(login, RedisConnectionInfo::set_username);
        password.iter().fold(login, |login, password| login.set_password(&password.0))
    }

    pub(crate) fn auth(&self, Password(password): &Password) -> Cmd {
        let user = self.user.iter();
        user.fold(cmd("AUTH"), |mut auth, user| auth.arg(user).take()).arg(password).take()
    }
}

/// The first line of the file, without its line end.
fn password_in(file: &Path) -> Result<Password, String> {
    let mut text = String::new();
    open_secret(file)?.read_to_string(&mut text).map_err(|error| error.to_string())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err("it is empty: write the password into it".into());
    }
    if line.contains('\n') {
        return Err("it has several lines: leave the password alone in it".into());
    }
    Ok(Password(line.to_owned()))
}

/// Opens a file that contains a secret, unless others than its owner and its group can read or
/// change it.
///
/// The group is allowed because services often get root's files in this way.
pub(crate) fn open_secret(file: &Path) -> Result<Take<File>, String> {
    let opened = File::open(file).map_err(|error| error.to_string())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = opened.metadata().map_err(|error| error.to_string())?.mode() & 0o7777;
        if mode & 0o027 != 0 {
            return Err(format!(
                "others can read or change it (mode {mode:04o}): chmod 600, or 640 for a group's"
            ));
        }
    }
    Ok(opened.take(LONGEST))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn written(text: &str, mode: u32) -> Result<Password, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        password_in(&file)
    }

    #[test]
    fn a_password_is_the_one_line_of_its_file() {
        for text in ["s3 cret", "s3 cret\n", "s3 cret\r\n"] {
            for mode in [0o400, 0o600, 0o640, 0o440] {
                assert_eq!(written(text, mode), Ok(Password("s3 cret".into())), "{text:?}");
            }
        }
    }

    #[test]
    fn a_password_that_others_can_read_is_refused_and_never_shown() {
        for (text, mode, words) in [
            ("s3cret", 0o644, "mode 0644"),
            ("s3cret", 0o604, "chmod 600"),
            ("s3cret", 0o602, "others can"),
            ("s3cret", 0o620, "others can"),
            ("", 0o600, "empty"),
            ("\n", 0o600, "empty"),
            ("s3cret\ns3cret\n", 0o600, "several lines"),
        ] {
            let reason = written(text, mode).unwrap_err();
            assert!(reason.contains(words) && !reason.contains("s3cret"), "{reason}");
        }
    }
}
