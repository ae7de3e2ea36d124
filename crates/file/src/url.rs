//! The path in a store URL, parsed in one place for the library and the command.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use leasehold_core::Misuse;
use nix::unistd::{Uid, User};
use percent_encoding::percent_decode_str;

/// The path after `file:` in a store URL, always absolute. `~/` is the user's [`home`], and `%XX` a
/// byte. [`url_of_path`] does the reverse.
///
/// # Errors
///
/// [`Misuse::Url`] if it names no file, or a relative path: that would be another file, and so
/// exclude nobody, in each working directory. The error never quotes the URL: in a wrong one, any
/// part may be a password.
pub fn path_in_url(behind_colon: &str) -> Result<PathBuf, Misuse> {
    let refused = |reason: &str| Err(Misuse::Url { reason: reason.into() });
    // `file:///path` is how file URLs are usually written; `file:/path` is shorter.
    let path = match behind_colon.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return refused("file:// takes an absolute path, as in file:///var/lib/app/leases.db"),
        None => behind_colon,
    };
    if path.is_empty() {
        return refused("file: lacks a path, as in file:/var/lib/app/leases.db");
    }
    if path.contains('?') {
        return refused(
            "file: takes no parameters: leave out the question mark and what follows it, or write it as %3F if it is \
             in the name of the file",
        );
    }
    let decoded = |text: &str| OsString::from_vec(percent_decode_str(text).collect());
    let shown = decoded(path);
    let shown = shown.to_string_lossy();
    if shown != shown.trim() || shown.contains(char::is_control) {
        // It would be a second file that looks like the first in every message.
        return refused(
            "the path of file: has a blank at an end, or a line break or another control character: remove \
             it (a script with Windows line ends adds one)",
        );
    }
    if let Some(below_home) = path.strip_prefix("~/") {
        let home = home().map_err(|reason| Misuse::Url {
            reason: format!("{reason}, so file:~ has no meaning: write an absolute path"),
        })?;
        let below_home = PathBuf::from(decoded(below_home));
        return Ok(home.join(below_home.strip_prefix("/").unwrap_or(&below_home)));
    }
    if path.starts_with('~') {
        return refused(
            "file:~ is the home of the user who runs this: write file:~/leases.db, or an absolute path",
        );
    }
    if !path.starts_with('/') {
        return refused(
            "a relative path is another file in each working directory: write an absolute one, as in \
             file:/var/lib/app/leases.db or file:~/leases.db",
        );
    }
    Ok(decoded(path).into())
}

/// The store URL of an absolute path.
#[must_use]
pub fn url_of_path(path: &Path) -> String {
    let mut url = String::from("file:");
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        url += &chunk.valid().replace('%', "%25").replace('?', "%3F");
        chunk.invalid().iter().for_each(|byte| url += &format!("%{byte:02X}"));
    }
    url
}

/// The home directory of the effective user in the user database, whatever `HOME` says: cron, a
/// service and a shell must never use two different files.
///
/// # Errors
///
/// Why there is none.
pub fn home() -> Result<PathBuf, String> {
    let user = Uid::effective();
    home_of(user, User::from_uid(user).map(|entry| entry.map(|entry| entry.dir)))
}

fn home_of(user: Uid, entry: nix::Result<Option<PathBuf>>) -> Result<PathBuf, String> {
    match entry {
        Ok(Some(home)) if home.is_absolute() => Ok(home),
        Ok(Some(_)) => Err(format!("user {user} has no home in the user database")),
        Ok(None) => Err(format!("user {user} is not in the user database")),
        Err(error) => Err(format!("the home of user {user} cannot be looked up ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn an_absolute_path_is_taken_as_it_is_and_a_tilde_is_the_users_home() {
        let path = |text| path_in_url(text).unwrap();
        assert_eq!(path("/x/a.db"), PathBuf::from("/x/a.db"));
        assert_eq!(path("///x/a.db"), PathBuf::from("/x/a.db"));
        assert_eq!(path("~/a.db"), home().unwrap().join("a.db"));
        assert_eq!(path("/x/~/a.db"), PathBuf::from("/x/~/a.db"));
        // Regression: it was /x/a.db.
        assert_eq!(path("~//x/a.db"), home().unwrap().join("x/a.db"));
    }

    #[test]
    fn a_path_that_depends_on_where_one_is_or_names_nothing_is_refused() {
        for text in
            ["", "//", "//x/a.db", "//~/a.db", "a.db", "./a.db", "../a.db", "~", "~other/a.db", " /a.db"]
        {
            assert!(matches!(path_in_url(text), Err(Misuse::Url { .. })), "{text}");
        }
    }

    /// Regression: it named a second file, so that two jobs did not exclude each other.
    #[test]
    fn a_path_with_a_blank_at_an_end_or_a_control_character_is_refused() {
        for text in ["/x/a.db ", "/x/a.db\r", "/x/a.db\n", "/x/a.db\u{a0}", "~/a.db\t", "/x\r/a.db"] {
            let Err(Misuse::Url { reason }) = path_in_url(text) else { panic!("{text:?} is taken") };
            assert!(reason.contains("a blank at an end"), "{reason}");
        }
        assert_eq!(path_in_url("/x y/a b.db"), Ok("/x y/a b.db".into()));
    }

    /// Regression: it named a file with this text in its name.
    #[test]
    fn a_parameter_is_refused() {
        for text in ["/x.db?mode=ro", "///x.db?", "~/x.db?a=b"] {
            let Err(Misuse::Url { reason }) = path_in_url(text) else { panic!("{text:?} is taken") };
            assert!(reason.contains("takes no parameters") && reason.contains("%3F"), "{reason}");
        }
    }

    #[test]
    fn every_byte_of_a_path_can_be_written_and_read_back() {
        assert_eq!(path_in_url("/a%20b%3Fc%25d").unwrap(), PathBuf::from("/a b?c%d"));
        assert_eq!(path_in_url("/100%/x").unwrap(), PathBuf::from("/100%/x"));
        assert_eq!(url_of_path(Path::new("/a b?c%41ü")), "file:/a b%3Fc%2541ü");
        for name in [&b"/x y/a?b%3F#c,d.db"[..], b"/\xff\xfe/\xc3.db", "/schlüssel.db".as_bytes()] {
            let path = PathBuf::from(OsString::from_vec(name.into()));
            let url = url_of_path(&path);
            assert_eq!(path_in_url(url.strip_prefix("file:").unwrap()), Ok(path), "{url}");
        }
        for text in ["/a%0A", "/a%00b", "/a%20"] {
            assert!(matches!(path_in_url(text), Err(Misuse::Url { .. })), "{text}");
        }
    }

    #[test]
    fn a_user_without_a_home_gets_the_reason() {
        let seven = Uid::from_raw(7);
        assert_eq!(home_of(seven, Ok(Some("/home/seven".into()))), Ok("/home/seven".into()));
        for entry in [Ok(None), Ok(Some(PathBuf::new())), Err(Errno::EIO)] {
            assert!(home_of(seven, entry).unwrap_err().contains("user 7"));
        }
    }
}
