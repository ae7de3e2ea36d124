//! A process that follows orders: a line of JSON in each direction.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::AnyError;

/// No order takes this long: a process that is silent for longer will not answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(300);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    process: Process,
    orders: ChildStdin,
    reports: Receiver<String>,
}

impl Child {
    pub fn start(command: &mut Command) -> Result<Self, AnyError> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} does not run: {error}", command.get_program().display()))?;
        let orders = process.stdin.take().expect("it was piped");
        let answers = BufReader::new(process.stdout.take().expect("it was piped"));
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            for line in answers.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, orders, reports })
    }

    /// Sends an order, and does not wait for the report.
    pub fn send(&mut self, order: &impl Serialize) -> Result<(), AnyError> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        Ok(self.orders.write_all(line.as_bytes())?)
    }

    pub fn receive<R: DeserializeOwned>(&mut self) -> Result<R, AnyError> {
        let line = self
            .reports
            .recv_timeout(ANSWERS_WITHIN)
            .map_err(|_| format!("process {} does not answer", self.process.id()))?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
