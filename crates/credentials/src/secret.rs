//! Passwords, and files that contain a secret.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Take};
use std::path::{Path, PathBuf};

/// A password, or the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the stores make it from their URLs")]
pub enum Secret {
    /// The password itself.
    Text(Password),
    /// Its file, which is read for each connection, so that the password can be changed while the
    /// program runs.
    File(PathBuf),
}

/// A password, which `Debug` never shows.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a password is its text")]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// No real password or key is longer.
const LONGEST: u64 = 64 * 1024;

impl Secret {
    /// The current password.
    ///
    /// # Errors
    ///
    /// The reason, for a person, if the file is not a regular one or cannot be read, others than its
    /// owner and its group can read or change it, or it contains something else than one line.
    pub fn password(&self) -> Result<Password, String> {
        match self {
            Self::Text(password) => Ok(password.clone()),
            Self::File(file) => {
                password_in(file).map_err(|reason| format!("password-file={}: {reason}", file.display()))
            }
        }
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

/// Refuses a file that has its text only once, and could block the caller for ever.
pub(crate) fn refuse_pipe(file: &Path) -> Result<(), String> {
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err("it is not a regular file, as one that is read for each connection must be".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a file that contains a secret, unless others than its owner and its group can read or
/// change it.
///
/// The group is allowed because services often get root's files in this way.
pub(crate) fn open_secret(file: &Path) -> Result<Take<File>, String> {
    refuse_pipe(file)?;
    let opened = File::open(file).map_err(|error| error.to_string())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
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
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn written(text: &str, mode: u32) -> Result<Password, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        Secret::File(file).password()
    }

    #[test]
    fn a_password_is_the_one_line_of_its_file() {
        for text in ["s3 cret", "s3 cret\n", "s3 cret\r\n"] {
            for mode in [0o400, 0o600, 0o640, 0o440] {
                assert_eq!(written(text, mode), Ok(Password("s3 cret".into())), "{text:?}");
            }
        }
        assert_eq!(written(" s3cret \n", 0o600), Ok(Password(" s3cret ".into())));
    }

    /// Regression: a pipe that nobody wrote to blocked the only thread of a command, which then did not even
    /// end by SIGTERM; and what was written to one was gone when the connection broke.
    #[test]
    fn a_pipe_is_refused_without_opening_it() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap();
        let reason = Secret::File(pipe).password().unwrap_err();
        assert!(made.success() && reason.contains("not a regular file"), "{reason}");
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
