//! Changes of a function in SQL, one at a time: each operator, number, condition and simple statement.

use super::{Change, Mutant, changed_texts};

const CHANGES: [(&str, &[&str]); 21] = [
    ("<", &["<=", ">"]),
    (">", &[">=", "<"]),
    ("<=", &["<", ">"]),
    (">=", &[">", "<"]),
    ("=", &["<>"]),
    ("<>", &["="]),
    ("AND", &["OR"]),
    ("OR", &["AND"]),
    ("NOT", &[""]),
    ("IS", &["IS NOT"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("true", &["false"]),
    ("false", &["true"]),
    ("'on'", &["'off'"]),
    ("'off'", &["'on'"]),
    ("greatest", &["least"]),
    ("least", &["greatest"]),
    ("DESC", &["ASC"]),
];

pub(super) fn mutants(text: &str) -> Vec<Mutant> {
    let mut found: Vec<Change> = Vec::new();
    let mut start = text.find("\nBEGIN").expect("a body");
    for line in text[start..].split_inclusive('\n') {
        let code = line.split("--").next().unwrap_or_default();
        let words = code.trim();
        let is_statement =
            words.contains(" := ") || ["RETURN", "CONTINUE"].iter().any(|verb| words.starts_with(verb));
        if is_statement && words.ends_with(';') {
            let indent = code.len() - code.trim_start().len();
            found.push((start + indent, start + indent + words.len(), String::new()));
        }
        let tokens = tokens(code);
        for (nth, (at, token)) in tokens.iter().enumerate() {
            let change = |to: String| (start + at, start + at + token.len(), to);
            if let Ok(number) = token.parse::<u64>() {
                found.push(change((number + 1).to_string()));
            }
            // Without the NOT behind it, this is the change of that.
            let is_negated = tokens.get(nth + 1).is_some_and(|(_, next)| *next == "NOT");
            let known = CHANGES.iter().filter(|(from, _)| from == token && !(*from == "IS" && is_negated));
            found.extend(known.flat_map(|(_, to)| *to).map(|to| change((*to).to_owned())));
        }
        start += line.len();
    }
    changed_texts(text, found)
}

/// Words, numbers, strings and runs of symbols, each with where it begins.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let kind = |letter: char| match letter {
        '\'' => 3,
        letter if letter.is_alphanumeric() || "_.{}".contains(letter) => 1,
        letter if "<>=+-*/|:".contains(letter) => 2,
        _ => 0,
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(first) = code[from..].chars().next() {
        let rest = &code[from..];
        let length = match kind(first) {
            0 => first.len_utf8(),
            3 => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            same => rest.find(|letter| kind(letter) != same).unwrap_or(rest.len()),
        };
        if kind(first) > 0 {
            found.push((from, &rest[..length]));
        }
        from += length;
    }
    found
}

#[test]
fn every_operator_number_condition_and_statement_is_changed_once() {
    let names: Vec<_> =
        mutants("f\nBEGIN\n  RETURN NEXT;\n  IF NOT a IS NOT NULL THEN -- 1 < 2\n  b := '1' || 7;\n")
            .into_iter()
            .map(|mutant| mutant.name)
            .collect();
    assert_eq!(
        names,
        [
            "{{RETURN NEXT; => }}",
            "IF {{NOT => }} a IS NOT NULL THEN -- 1 < 2",
            "IF NOT a IS {{NOT => }} NULL THEN -- 1 < 2",
            "{{b := '1' || 7; => }}",
            "b := '1' || {{7 => 8}};",
        ]
    );
}
