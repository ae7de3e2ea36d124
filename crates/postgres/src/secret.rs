//! Passwords and private keys in files.

use std::fs::File;
use std::io::{Read as _, Take};
use std::path::Path;

/// No real password or key is longer.
const LONGEST: u64 = 64 * 1024;

/// The current password in a file that contains nothing else.
pub(crate) fn password_in(file: &Path) -> Result<String, String> {
    let of = |reason: String| format!("password-file={}: {reason}", file.display());
    let mut text = String::new();
    open_secret(file).map_err(of)?.read_to_string(&mut text).map_err(|error| of(error.to_string()))?;
    let line = text.trim_end_matches(['\n', '\r']);
    if line.is_empty() || line.contains('\n') {
        return Err(of("a password is alone in its file, on one line".into()));
    }
    Ok(line.to_owned())
}

/// Opens a file that contains a secret, unless others than its owner and its group can read or
/// change it.
pub(crate) fn open_secret(file: &Path) -> Result<Take<File>, String> {
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

    fn written(text: &str, mode: u32) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        password_in(&file)
    }

    #[test]
    fn a_password_is_the_one_line_of_its_file() {
        for text in ["s3 cret", "s3 cret\n", "s3 cret\r\n"] {
            assert_eq!(written(text, 0o640), Ok("s3 cret".into()));
        }
    }

    #[test]
    fn a_password_that_others_can_read_is_refused_and_never_shown() {
        for (text, mode) in [("s3cret", 0o644), ("s3cret", 0o620), ("", 0o600), ("s3cret\ns3cret\n", 0o600)] {
            let reason = written(text, mode).unwrap_err();
            assert!(!reason.contains("s3cret"), "{reason}");
        }
    }
}
