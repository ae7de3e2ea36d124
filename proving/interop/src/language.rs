//! The languages of the peers: their interpreters, and where their libraries are.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// JavaScript: `node`, and `npm` for downloads.
    Node,
    /// Python: `python3`, with its `venv`.
    Python,
}

impl Language {
    pub const ALL: [Self; 2] = [Self::Node, Self::Python];

    /// The name in messages, and of its directory in `target/peers`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// The directory of this language's libraries. It need not exist.
    pub fn home(self) -> PathBuf {
        Self::fetched_into().join(self.name())
    }

    /// The directory of downloaded libraries: this workspace's `target/peers` in any case.
    pub fn fetched_into() -> PathBuf {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        workspace.expect("this crate lies two levels down").join("target/peers")
    }

    /// The files that list each library with its exact version.
    pub fn manifests(self) -> Vec<PathBuf> {
        let names: &[&str] = match self {
            Self::Node => &["package.json", "package-lock.json"],
            Self::Python => &["requirements.txt"],
        };
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        names.iter().map(|name| place.join(name)).collect()
    }

    /// The programs that this machine lacks, or has in too old a version.
    pub fn lacking(self) -> Vec<&'static str> {
        let wanted: &[(&str, &[&str])] = match self {
            Self::Node => &[
                ("node 20", &["node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"]),
                ("npm", &["npm", "--version"]),
            ],
            Self::Python => &[
                ("python3 3.10", &["python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]),
                ("pip for python3", &["python3", "-m", "pip", "--version"]),
            ],
        };
        wanted.iter().filter(|(_, words)| !runs(words)).map(|(name, _)| *name).collect()
    }

    /// The peers that are written in this language.
    pub fn peers(self) -> impl Iterator<Item = Peer> {
        Peer::ALL.into_iter().filter(move |peer| peer.language() == self)
    }

    /// The text that is written next to the libraries when all of them are installed: the
    /// interpreter that they were installed for, because a virtual environment works with no other,
    /// and the text of the manifests.
    ///
    /// # Errors
    ///
    /// If a manifest cannot be read, or the interpreter does not run.
    pub fn stamp(self) -> io::Result<String> {
        let interpreter = match self {
            Self::Node => "node",
            Self::Python => "python3",
        };
        let version = Command::new(interpreter).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&version.stdout).into_owned() + &self.wanted()?)
    }

    pub fn stamp_file(self) -> PathBuf {
        self.home().join("stamp")
    }

    /// True if the manifests' libraries are installed. Checking their interpreter, too, takes long.
    pub fn has_libraries(self) -> bool {
        let stamp = fs::read_to_string(self.stamp_file()).unwrap_or_default();
        let there = stamp.split_once('\n').map(|(_, manifests)| manifests);
        self.wanted().is_ok_and(|wanted| there == Some(&*wanted))
    }

    fn wanted(self) -> io::Result<String> {
        self.manifests().iter().map(fs::read_to_string).collect()
    }

    /// The command that runs a program of this language with the downloaded libraries.
    pub fn command(self, program: &Path) -> Command {
        match self {
            Self::Node => {
                let mut command = Command::new("node");
                command.env("NODE_PATH", self.home().join("node_modules")).arg(program);
                command
            }
            Self::Python => {
                let mut command = Command::new(self.home().join("bin/python"));
                // Leaves no compiled files among the sources.
                command.env("PYTHONDONTWRITEBYTECODE", "1").arg(program);
                command
            }
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn runs(words: &[&str]) -> bool {
    let (program, arguments) = words.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
