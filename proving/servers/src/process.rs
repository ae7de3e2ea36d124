//! A process for one test: it ends with its owner, however the owner ends.

use std::{
    ffi::OsStr,
    io,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How long a server may take to shut down before it is killed. It has almost nothing to save.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A running child; killed and reaped on drop, and killed by the kernel if this process is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program. Its output goes where this process's output goes.
    pub fn start<Word: AsRef<OsStr>>(
        program: &Path,
        words: impl IntoIterator<Item = Word>,
    ) -> io::Result<Self> {
        let mut command = dying_with_us(program);
        command.args(words).stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a command made by [`dying_with_us`].
    pub(crate) fn spawn(command: Command) -> io::Result<Self> {
        Ok(Self { child: spawn_from_lasting_thread(command)? })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends SIGKILL, and reaps the process. Does nothing if it has ended.
    pub fn kill(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM, as an operator's restart does, and SIGKILL if that takes too long.
    pub fn end(&mut self) {
        let deadline = Instant::now() + ENDS_WITHIN;
        // A stopped process would never handle the SIGTERM.
        if self.signal(Signal::TERM).is_ok() && self.signal(Signal::CONT).is_ok() {
            while matches!(self.ended(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
        self.kill();
    }

    /// Sends SIGTERM, and expects a clean exit.
    pub fn end_well(&mut self) -> Result<(), String> {
        self.end();
        match self.ended() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!("process {} ended with {status}", self.id())),
            Ok(None) | Err(_) => Err(format!("process {} did not end", self.id())),
        }
    }

    /// Sends SIGSTOP, and returns once the process has stopped.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        // NOWAIT leaves reaping to the standard library, which owns the child.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.pid()), until) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(Some(status)) if status.stopped() => return Ok(()),
                Ok(_) => return Err(io::Error::other("it has ended")),
            }
        }
    }

    /// Sends SIGCONT.
    pub fn cont(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends a signal, unless the process has ended: its id may already belong to another process.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if let Some(status) = self.ended()? {
            return Err(io::Error::other(format!("it has ended: {status}")));
        }
        kill_process(self.pid(), signal).map_err(io::Error::from)
    }

    fn pid(&self) -> Pid {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a child has a positive process id")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command whose process the kernel kills when this process dies, even by `kill -9`: util-linux's
/// `setpriv` requests that and then becomes the program. Without `setpriv`, a server can outlive
/// its tests, and nothing else changes.
pub(crate) fn dying_with_us(program: &Path) -> Command {
    static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "true"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if !*SETPRIV {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns the child from a thread that lives as long as this process. The kernel takes the death of
/// the *thread* that made a child for the death of its parent; otherwise, a server would die with
/// the test or the runtime's worker that started it.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                // The caller waits for the answer, so it is always received.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, answer) = mpsc::channel();
    ORDERS.send((command, reply)).expect("the thread that starts servers lasts");
    answer.recv().expect("the thread that starts servers lasts")
}
