//! A pseudoterminal for tests that type keys.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::harness::{OURS, Site, end_of, found_or};

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";
pub(crate) const CTRL_BACKSLASH: &str = "\x1c";

const ROWS: u16 = 24;
const COLUMNS: u16 = 200;

/// A terminal and its session.
#[derive(Debug)]
pub(crate) struct Pty {
    keyboard: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// The output that earlier waits have consumed.
    seen: usize,
    size: [u16; 2],
    leader: Child,
}

impl Pty {
    /// Starts a session with this program, which finds `leasehold` as `$L` and the store in
    /// `$LEASEHOLD_STORE`.
    pub(crate) fn start(site: &Site, program: &str, words: &[&str]) -> Self {
        Self::sized(site, [ROWS, COLUMNS], program, words)
    }

    /// The same on a terminal of this size.
    pub(crate) fn sized(site: &Site, size: [u16; 2], program: &str, words: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let winsize = Winsize { ws_row: size[0], ws_col: size[1], ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, winsize).expect("a terminal has a size");
        let name = ptsname(&master, Vec::new()).expect("a terminal has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = File::from(open(&name, flags, Mode::empty()).expect("a terminal can be opened"));
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(words).current_dir(site.path("")).env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        command.env("L", OURS).env("LEASEHOLD_STORE", site.store());
        command.env("TERM", "xterm").env("LC_ALL", "C").env("PS1", "> ");
        let copy = || device.try_clone().expect("a descriptor more");
        let leader = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("setsid starts");
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().expect("a descriptor more");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            // Fails once no process has the terminal open.
            while let Ok(length @ 1..) = screen.read(&mut some) {
                all.lock().expect("nobody panics").extend_from_slice(&some[..length]);
            }
        });
        Self { keyboard, shown, seen: 0, size, leader }
    }

    /// Starts a session with a script for a non-interactive bash.
    pub(crate) fn script(site: &Site, script: &str) -> Self {
        Self::start(site, "bash", &["-c", script])
    }

    /// Starts a session with an interactive shell.
    pub(crate) fn shell(site: &Site) -> Self {
        let mut pty = Self::start(site, "bash", &["--norc", "--noprofile", "--noediting", "-i"]);
        pty.wait_for("> ");
        pty
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Types a line, and skips its echo.
    pub(crate) fn enters(&mut self, line: &str) {
        self.types(&format!("{line}\n"));
        self.wait_for(&format!("{line}\r\n"));
    }

    /// Types keys, and waits until this is shown.
    #[track_caller]
    pub(crate) fn types_until(&mut self, keys: &str, shown: &str) {
        self.types(keys);
        self.wait_for(shown);
    }

    /// Types a line, and waits until this is shown behind it.
    #[track_caller]
    pub(crate) fn enters_until(&mut self, line: &str, shown: &str) {
        self.enters(line);
        self.wait_for(shown);
    }

    /// Presses Ctrl-Z, and waits for the shell's prompt.
    #[track_caller]
    pub(crate) fn is_stopped(&mut self) {
        self.types_until(CTRL_Z, "Stopped");
        self.wait_for("> ");
    }

    /// Waits until this is shown, after the text of earlier waits.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let missing = || format!("{text:?} behind byte {} of {:?}", self.seen, self.all());
        let at = found_or(missing, || {
            let shown = &self.shown.lock().expect("nobody panics")[self.seen..];
            shown.windows(text.len()).position(|place| place == text.as_bytes())
        });
        self.seen += at + text.len();
    }

    pub(crate) fn all(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics")).into_owned()
    }

    /// The current screen of the terminal, and its settings.
    pub(crate) fn terminal(&self) -> vt100::Screen {
        let [rows, columns] = self.size.map(|size| NonZero::new(size).expect("a terminal has a size"));
        let mut parser = vt100::Parser::new(rows, columns, 0);
        parser.process(&self.shown.lock().expect("nobody panics"));
        parser.screen().clone()
    }

    pub(crate) fn screen(&self) -> String {
        self.terminal().contents()
    }

    /// The screen, once it shows all of this.
    #[track_caller]
    pub(crate) fn shows(&self, words: &[&str]) -> String {
        let missing = || format!("{words:?} on the screen:\n{}", self.screen());
        found_or(missing, || {
            Some(self.screen()).filter(|screen| words.iter().all(|word| screen.contains(word)))
        })
    }

    /// Types keys, and waits until the screen shows all of this.
    #[track_caller]
    pub(crate) fn draws(&mut self, keys: &str, words: &[&str]) -> String {
        self.types(keys);
        self.shows(words)
    }

    /// The first process of the session.
    pub(crate) fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) {
        let status = end_of(&mut self.leader);
        assert_eq!(status.code(), Some(code), "{status}: {:?}", self.all());
    }

    #[track_caller]
    pub(crate) fn dies_of(&mut self, signal: Signal) {
        let status = end_of(&mut self.leader);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}: {:?}", self.all());
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // The hangup then ends the rest of the session, and the kill ends the process that
        // supervises a command.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}
