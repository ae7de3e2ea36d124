//! A minimal Redis client: a test inspects a server independently of the code under test.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// A server that is silent for this long is stopped or cut off, and the test is meant to see that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A connection that speaks RESP2.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// An answer in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "RESP2 has these five and will get no others")]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR …`, without the dash
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$2…`; `None` is the null reply
    Bulk(Option<Vec<u8>>),
    /// `*2…`; `None` is the null reply
    Array(Option<Vec<Self>>),
}

impl Reply {
    /// The text of a simple or bulk string that is not null and is UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Simple(text) => Some(text),
            Self::Bulk(Some(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }
}

impl Connection {
    /// Connects to a port of 127.0.0.1.
    pub fn open(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, ANSWERS_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Connects to a Unix socket.
    pub fn open_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends a command and returns its answer.
    pub fn command(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// [`command`](Self::command) in text.
    pub fn text(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.command(&words)
    }

    /// Sends a command without reading its answer, which [`receive`](Self::receive) returns.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// The next answer, or message of a subscription.
    /// An error if the connection is cut, or silent for 5 s.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let mut characters = line.chars();
        let kind = characters.next();
        let rest = characters.as_str();
        match kind {
            Some('+') => Ok(Reply::Simple(rest.to_owned())),
            Some('-') => Ok(Reply::Error(rest.to_owned())),
            Some(':') => Ok(Reply::Integer(rest.parse().map_err(|_| malformed(&line))?)),
            Some('$') => match length(rest, &line)? {
                None => Ok(Reply::Bulk(None)),
                Some(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Ok(Reply::Bulk(Some(bytes)))
                }
            },
            Some('*') => match length(rest, &line)? {
                None => Ok(Reply::Array(None)),
                Some(length) => {
                    let items: io::Result<Vec<_>> = (0..length).map(|_| self.receive()).collect();
                    Ok(Reply::Array(Some(items?)))
                }
            },
            _ => Err(malformed(&line)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        Ok(line.trim_end_matches("\r\n").to_owned())
    }
}

/// The length of the following data; -1 is the null reply.
fn length(text: &str, line: &str) -> io::Result<Option<usize>> {
    if text == "-1" { Ok(None) } else { text.parse().map(Some).map_err(|_| malformed(line)) }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP2: {line:?}"))
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
