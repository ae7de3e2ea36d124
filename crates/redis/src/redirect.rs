//! Redirects: the answers of a node that does not own a key, or not yet.

use std::fmt;

use redis::ServerError;

/// The address of a node of a cluster. An empty host means the host of the node that sent it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Nothing was executed, and the request may be sent again.
///
/// If a script deletes a key and then accesses it again, at a node from which the slot is moving
/// away, it is told that the key is not local. That is not a redirect: what the script did before
/// is executed, so the caller must know that it got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// This node owns the slot from now on.
    Moved(Node),
    /// The key has moved to this node already, which accepts the request only after `ASKING`.
    Ask(Node),
    /// The keys are spread over two nodes, or the node does not know their owner yet.
    Later,
    /// The node accepts no writes: it is a replica, or a master without a majority.
    Elsewhere,
}

impl Redirect {
    /// Reads a refusal, also one within a script: some servers put it into the script's failure.
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

/// `3999 127.0.0.1:6381`; the host may be missing, contain colons, or be unknown to the node (`?`).
fn node(details: &str) -> Option<Node> {
    let (host, port) = details.split_whitespace().nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (host != "?").then(|| Node { host: host.trim_matches(['[', ']']).to_owned(), port })
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
    fn passing_errors_are_recognised_also_in_the_message_of_a_script() {
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
