//! A proxy that counts a client's commands. A script counts as one, whatever it calls.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The proxy, through which nothing is timed. A connection ends when either side closes it.
#[derive(Debug)]
pub struct Tap {
    port: u16,
    commands: Arc<AtomicU64>,
    closing: Arc<AtomicBool>,
}

impl Tap {
    /// Starts a proxy for a server's port on 127.0.0.1.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let (commands, closing) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let tap = Self { port, commands: commands.clone(), closing: closing.clone() };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if closing.load(Ordering::Acquire) {
                    return;
                }
                // If the server is gone, the client sees a closed connection.
                let _ = pass(client, server, &commands);
            }
        });
        tap
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Acquire)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // The listener blocks in `accept`; a connection wakes it.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Copies in both directions, on two threads, until either side closes.
fn pass(client: TcpStream, server: u16, commands: &Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let commands = commands.clone();
    thread::spawn(move || {
        let mut frames = Frames::default();
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            // Before it is forwarded, so that a command is counted before its answer arrives.
            commands.fetch_add(frames.complete_with(&chunk[..read]), Ordering::AcqRel);
            if to.write_all(&chunk[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (server, client);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// The position in a client's stream of commands: `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`.
#[derive(Debug, Default)]
struct Frames {
    /// Bulk strings of the current command that are not complete yet.
    words: u64,
    /// Bytes of the current bulk string that have not been read yet, including its line end.
    bytes: usize,
    line: Vec<u8>,
}

impl Frames {
    /// The number of commands that these bytes complete.
    fn complete_with(&mut self, mut chunk: &[u8]) -> u64 {
        let mut complete = 0;
        while !chunk.is_empty() {
            if self.bytes > 0 {
                let skipped = self.bytes.min(chunk.len());
                self.bytes -= skipped;
                chunk = &chunk[skipped..];
                if self.bytes == 0 {
                    self.words -= 1;
                    complete += u64::from(self.words == 0);
                }
                continue;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let (line, rest) = chunk.split_at(end.map_or(chunk.len(), |end| end + 1));
            self.line.extend_from_slice(line);
            chunk = rest;
            if end.is_none() {
                break;
            }
            let line = std::mem::take(&mut self.line);
            let number =
                std::str::from_utf8(&line[1..]).ok().and_then(|digits| digits.trim_end().parse().ok());
            match (line[0], number) {
                (b'*', Some(words)) => self.words = words,
                (b'$', Some(bytes)) => {
                    self.bytes = usize::try_from(bytes).expect("a word fits in memory") + 2;
                }
                // An inline command, which no client library sends.
                _ => complete += 1,
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\n*1\r\n$4\r\nx\r\n";

    #[test]
    fn commands_are_counted_however_the_bytes_come() {
        for size in 1..=TWO.len() {
            let mut frames = Frames::default();
            let complete: u64 = TWO.chunks(size).map(|chunk| frames.complete_with(chunk)).sum();
            assert_eq!(complete, 2, "in pieces of {size}");
        }
    }

    #[test]
    fn a_command_counts_when_it_is_whole() {
        let mut frames = Frames::default();
        assert_eq!(frames.complete_with(&TWO[..19]), 0);
        assert_eq!(frames.complete_with(&TWO[19..20]), 1);
    }
}
