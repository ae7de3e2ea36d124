//! Changes of a Lua text, one at a time: each operator, number, condition, name and line of code.

use super::{Change, Mutant, changed_texts};

/// Each change of a symbol, a word or the last part of a dotted name.
const CHANGES: [(&str, &[&str]); 31] = [
    ("<", &["<=", ">"]),
    (">", &[">=", "<"]),
    ("<=", &["<", ">"]),
    (">=", &[">", "<"]),
    ("==", &["~="]),
    ("~=", &["=="]),
    ("and", &["or"]),
    ("or", &["and"]),
    ("not", &[""]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("%", &["*"]),
    ("..", &["or"]),
    ("true", &["false"]),
    ("false", &["true"]),
    ("math.max", &["math.min"]),
    ("math.min", &["math.max"]),
    ("math.ceil", &["math.floor"]),
    ("math.floor", &["math.ceil"]),
    ("math.huge", &["0"]),
    ("'PX'", &["'EX'"]),
    ("keep", &["ttl"]),
    ("ttl", &["keep"]),
    ("fence_key", &["key"]),
    ("queue_key", &["waiters_key"]),
    ("waiters_key", &["queue_key"]),
    ("holders_key", &["shares_key"]),
    ("shares_key", &["holders_key"]),
    ("redis.pcall", &["redis.call"]),
];

pub(super) fn mutants(text: &str) -> Vec<Mutant> {
    let tokens = tokens(text);
    let mut changes: Vec<Change> = Vec::new();
    for (nth, &(at, token)) in tokens.iter().enumerate() {
        changes.extend(changed(token).into_iter().map(|to| (at, at + token.len(), to)));
        if ["if", "elseif", "while", "until"].contains(&token) {
            changes.extend(negated(text, &tokens[nth..]));
        }
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if is_code(line) {
            let indent = line.len() - line.trim_start().len();
            changes.push((start + indent, start + line.trim_end().len(), String::new()));
        }
        start += line.len();
    }
    changed_texts(text, changes)
}

/// A line that could be left out. A text with an `end` too many or too few is not a script.
fn is_code(line: &str) -> bool {
    let line = line.trim();
    let opens = ["then", "do", "else", "repeat", "(", "{"].iter().any(|last| line.ends_with(last));
    let opens = opens || line.contains("function") && !line.contains(" end");
    let closes = ["end", "}", ")", "else", "until"].iter().any(|first| line.starts_with(first));
    !line.is_empty() && !line.starts_with("--") && !opens && !closes
}

fn changed(token: &str) -> Vec<String> {
    if let Ok(number) = token.parse::<u64>() {
        return vec![(number + 1).to_string()];
    }
    let (path, last) = token.rsplit_once('.').map_or((0, token), |(path, last)| (path.len() + 1, last));
    let known = |name: &str| CHANGES.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
    match known(token) {
        Some(to) => to.iter().map(ToString::to_string).collect(),
        None if path > 0 && !last.is_empty() => {
            known(last).unwrap_or_default().iter().map(|to| format!("{}{to}", &token[..path])).collect()
        }
        None => Vec::new(),
    }
}

/// The condition behind an `if` in one line, turned round.
fn negated(text: &str, tokens: &[(usize, &str)]) -> Option<(usize, usize, String)> {
    let (at, word) = tokens[0];
    let from = at + word.len() + 1;
    let line_end = text[at..].find('\n').map_or(text.len(), |behind| at + behind);
    let closing = tokens.iter().find(|(_, token)| ["then", "do"].contains(token));
    let to = match closing {
        _ if word == "until" => line_end,
        Some((end, _)) if *end < line_end => end - 1,
        _ => return None,
    };
    Some((from, to, format!("not ({})", &text[from..to])))
}

/// Symbols, numbers, words with their dots, and strings; each with where it begins. No comments.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let run = |from: usize, is_in: &dyn Fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| !is_in(*byte)).map_or(bytes.len(), |length| from + length)
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let end = match bytes[at] {
            _ if rest.starts_with("--") => {
                at = run(at, &|byte| byte != b'\n');
                continue;
            }
            quote @ (b'\'' | b'"') => {
                let mut end = at + 1;
                while bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            byte if byte.is_ascii_digit() => run(at, &|byte| byte.is_ascii_digit()),
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let mut end = run(at, &is_word);
                while bytes[end..].first() == Some(&b'.')
                    && bytes[end + 1..].first().is_some_and(u8::is_ascii_alphabetic)
                {
                    end = run(end + 1, &is_word);
                }
                end
            }
            _ => ["...", "..", "<=", ">=", "==", "~="]
                .iter()
                .find(|symbol| rest.starts_with(**symbol))
                .map_or(at + rest.chars().next().map_or(1, char::len_utf8), |symbol| at + symbol.len()),
        };
        if !bytes[at].is_ascii_whitespace() {
            tokens.push((at, &text[at..end]));
        }
        at = end;
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[test]
fn every_operator_number_condition_name_and_line_is_changed_once() {
    let names = |text: &str| mutants(text).into_iter().map(|mutant| mutant.name).collect::<Vec<_>>();
    assert_eq!(
        names("x = a.keep + 1 .. 'a < 1' -- not 1\n"),
        [
            "{{x = a.keep + 1 .. 'a < 1' -- not 1 => }}",
            "x = {{a.keep => a.ttl}} + 1 .. 'a < 1' -- not 1",
            "x = a.keep {{+ => -}} 1 .. 'a < 1' -- not 1",
            "x = a.keep + {{1 => 2}} .. 'a < 1' -- not 1",
            "x = a.keep + 1 {{.. => or}} 'a < 1' -- not 1",
        ]
    );
    assert_eq!(
        names("if not a < b then\nend\nif not a < b then\n  end"),
        [
            "if {{not => }} a < b then",
            "if {{not a < b => not (not a < b)}} then",
            "if not a {{< => <=}} b then",
            "if not a {{< => >}} b then",
            "if {{not => }} a < b then (2)",
            "if {{not a < b => not (not a < b)}} then (2)",
            "if not a {{< => <=}} b then (2)",
            "if not a {{< => >}} b then (2)",
        ]
    );
    let text = mutants("until a\n").remove(0).text;
    assert_eq!(text, "until not (a)\n");
}
