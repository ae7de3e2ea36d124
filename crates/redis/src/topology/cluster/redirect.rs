//! What a node of a cluster says when it is not the one to ask, or not yet.

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, ServerError, cmd};

use crate::client::{Heard, one, several};

/// Where one node of a cluster is. An empty host is that of the node which said so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Nothing was done, and it is worth asking again.
///
/// A script that had deleted a key and wanted to touch it again, at a node that its slot is about to leave, is told that the key is not
/// local. That is none of these: what the script did before stays done, so whoever asked must know that it was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot is this node's from now on.
    Moved(Node),
    /// What is asked for has gone to this node already, which must be told that we know it is on its way.
    Ask(Node),
    /// Its keys are partly here and partly there, or the node does not know yet whose they are.
    Later,
    /// The node takes no writes: it is a replica, or has no majority to be a master of.
    Elsewhere,
}

impl Redirect {
    /// Reads a refusal, also one that a script met: some servers then put it into the words of the script's failure.
    pub(crate) fn of(error: &ServerError) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        match error.code() {
            "MOVED" => return node(details).map(Self::Moved).or(Some(Self::Elsewhere)),
            "ASK" => return node(details).map(Self::Ask).or(Some(Self::Elsewhere)),
            "TRYAGAIN" => return Some(Self::Later),
            "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" | "UNBLOCKED" => return Some(Self::Elsewhere),
            _ => {}
        }
        let elsewhere = ["-CLUSTERDOWN ", "-READONLY ", "cluster is down"];
        elsewhere.iter().any(|words| details.contains(words)).then_some(Self::Elsewhere)
    }
}

/// `3999 127.0.0.1:6381`; a host may be missing, or have colons, or be unknown to the node (`?`).
fn node(details: &str) -> Option<Node> {
    let (host, port) = details.split_whitespace().nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (host != "?").then(|| Node { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// Says a command, and before it, where the keys are on their way, that we know they are. Both travel together: the word counts for
/// the very next command on the connection.
pub(crate) async fn say_one(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    asks: bool,
    command: &Cmd,
) -> Result<Heard, RedisError> {
    if !asks {
        return one(connection, command).await;
    }
    let heard = Box::pin(say_all(connection, true, std::iter::once(command.clone()))).await?;
    heard.into_iter().next().ok_or_else(unanswered)
}

/// The same of several.
pub(crate) async fn say_all(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    asks: bool,
    commands: impl ExactSizeIterator<Item = Cmd>,
) -> Result<Vec<Heard>, RedisError> {
    if !asks {
        return several(connection, commands).await;
    }
    let said: Vec<_> = commands.flat_map(|command| [cmd("ASKING"), command]).collect();
    let mut heard = several(connection, said.into_iter()).await?.into_iter();
    let mut answers = Vec::new();
    while let (Some(asking), Some(answer)) = (heard.next(), heard.next()) {
        // Whoever may not say it is sent back and forth; the refusal is what must be mended.
        answers.push(asking.and(answer));
    }
    Ok(answers)
}

fn unanswered() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn read(line: &str) -> Option<Redirect> {
        let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let Value::ServerError(error) = answer else { panic!("{answer:?}") };
        Redirect::of(&error)
    }

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.into(), port }
    }

    #[test]
    fn a_redirect_names_a_node_however_its_host_is_written() {
        assert_eq!(read("MOVED 3999 127.0.0.1:6381"), Some(Redirect::Moved(node("127.0.0.1", 6381))));
        assert_eq!(read("ASK 3999 a.example.org:7"), Some(Redirect::Ask(node("a.example.org", 7))));
        assert_eq!(read("MOVED 3999 ::1:6381"), Some(Redirect::Moved(node("::1", 6381))));
        assert_eq!(read("MOVED 3999 :6381"), Some(Redirect::Moved(node("", 6381))));
    }

    #[test]
    fn a_redirect_to_nowhere_is_looked_up_and_not_followed() {
        for line in ["MOVED 3999 ?:6381", "MOVED 3999", "MOVED", "ASK 1 h:0", "ASK 1 h:70000"] {
            assert_eq!(read(line), Some(Redirect::Elsewhere), "{line}");
        }
    }

    #[test]
    fn what_passes_by_itself_is_known_also_in_the_words_of_a_script() {
        for (line, redirect) in [
            ("TRYAGAIN Multiple keys request during rehashing of slot", Redirect::Later),
            ("CLUSTERDOWN Hash slot not served", Redirect::Elsewhere),
            ("READONLY You can't write against a read only replica.", Redirect::Elsewhere),
            (
                "ERR Error running script (call to f_01ab): @user_script:7: -READONLY You can't",
                Redirect::Elsewhere,
            ),
        ] {
            assert_eq!(read(line), Some(redirect), "{line}");
        }
        for line in [
            "NOPERM no",
            "ERR unknown command",
            "OOM command not allowed",
            "ERR Script attempted to access a non local key",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
