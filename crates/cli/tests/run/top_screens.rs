//! `leasehold top` on small terminals, with few locks and with many.

use std::collections::BTreeSet;

use crate::harness::{OURS, Site};
use crate::held::Held;
use crate::pty::Pty;

const SIZES: [[u16; 2]; 2] = [[24, 80], [24, 60]];

fn top(site: &Site, size: [u16; 2]) -> Pty {
    Pty::sized(site, size, OURS, &["top"])
}

/// The cells of the first column, and the headings of all.
fn keys(screen: &str) -> (Vec<String>, Vec<&str>) {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with("KEY "));
    let heads = lines.next().expect("heads");
    let width = heads.find("HOLDER").expect("a holder");
    let rows = lines.take_while(|line| !line.starts_with("waiting for ") && !line.trim().is_empty());
    let key = |line: &str| line.chars().take(width).collect::<String>().trim_end().to_owned();
    (rows.map(key).collect(), heads.split_whitespace().collect())
}

#[test]
fn without_a_lock_the_screen_says_so() {
    for size in SIZES {
        let site = Site::used();
        let pty = top(&site, size);
        let screen = pty.shows(&["no lock is held or waited for", "? help"]);
        let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
        assert!(lines[0].ends_with(": 0 held or waited for, 0 waiting; by key"), "{screen}");
        assert_eq!(keys(&screen).1, ["KEY", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"]);
        assert!(lines[23].ends_with("q end") && lines.len() == 24, "{screen}");
    }
}

#[test]
fn five_locks_fit_a_small_screen_and_look_different() {
    let site = Site::new();
    let name = |day: u8| format!("invoice:2024-11-{day}:customer:0042:renewal");
    let held = Held::all(site.store(), vec![name(20), name(21), "deploy".into()], 0);
    let _reader = site.start(site.run_script(&["--shared", "--label", "r", "data"], "exec sleep 60"));
    let _trainer =
        site.start(site.run_script(&["--permits", "1/4", "--label", "t", "gpus"], "exec sleep 60"));
    site.outcome(&["every", "2h", "report", "--", "true"]).silent(0);
    for [rows, columns] in SIZES {
        let mut pty = top(&site, [rows, columns]);
        let screen = pty.shows(&["5 held or waited for, 0 waiting; by key", "waiting for data: 0"]);
        let (shown, heads) = keys(&screen);
        assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), 5, "{screen}");
        assert!(shown[3].starts_with("invoi") && shown[3].contains("0:"), "{screen}");
        assert!(heads.contains(&"HELD") && !heads.contains(&"MODE"), "{screen}");
        // A fence is shown whole or not at all.
        let whole = held.fences.iter().filter(|fence| screen.contains(&fence.to_string())).count();
        assert_eq!(whole, if heads.contains(&"FENCE") { 3 } else { 0 }, "{screen}");
        assert_eq!(heads.contains(&"FENCE"), columns == 80, "{screen}");
        assert!(screen.contains(") shared ") && screen.contains(") 1/4 "), "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(columns)), "{screen}");

        pty.types("?");
        // No line is wrapped, and all have the same indentation.
        let lines = ["│   up, down, k, j,", "│   /   show only locks with this text in the key, or in "];
        pty.shows(&[&lines[..], &["what once and every ran", "q   end", "Esc closes this"]].concat());
        pty.types("\x1b");
        // As a separate word, because it may be the beginning of another key.
        crate::harness::until("no help", || !pty.screen().contains("Esc closes this"));
        pty.types("ki");
        pty.draws("\r", &["waiting for data: 0"]);
        pty.types("G\r");
        let fence = format!("fence    {}", held.fences[1]);
        let words =
            ["held by  ada@web-3.example:4711 report (", "mode     exclusive", "since    20", "waiting  0"];
        pty.shows(&[&[&*fence, &format!("key      {}", name(21))], &words[..]].concat());
        let marks = pty.draws("m", &["KEY     DUE", "LAST BEGUN", "report  20", ", in 1h59m"]);
        assert!(!marks.contains("held by"), "{marks}");
        pty.draws("\r", &["5 held or waited for", "? help  i info"]);
        pty.types("q");
        pty.ends_with(0);
    }
}

#[test]
fn the_page_of_a_lock_shows_its_mark_and_break_and_stays_when_the_lock_is_free() {
    let site = Site::new();
    site.outcome(&["once", "--label", "ran", "k", "--", "true"]).silent(0);
    let held = Held::all(site.store(), vec!["k".into()], 0);
    let mut pty = top(&site, [24, 80]);
    pty.shows(&["1 held or waited for"]);
    pty.draws("i", &["done     20", "Z by ran, fence ", "due      never again"]);
    pty.draws("b", &["Break the lease on k", &format!("with fence {}?", held.fences[0])]);
    pty.draws("y", &["held by  nobody", "broken   20", &format!(", fence {} of ada@", held.fences[0])]);
    pty.draws("b", &["k: nobody holds it"]);
}

#[test]
fn no_two_of_five_hundred_locks_look_the_same_on_any_page() {
    let site = Site::new();
    let names: Vec<_> = (0..500)
        .map(|n| format!("app:2024-11-21:tenant-{:02}:job-{n:03}:customer-renewal", n % 25))
        .collect();
    let _held = Held::all(site.store(), names.clone(), 0);
    let mut names = names;
    names.sort();
    // Its end may be cut.
    let title = |name: &str| format!("waiting for {}", &name[..40]);
    for size in SIZES {
        let mut pty = top(&site, size);
        let mut screen = pty.shows(&["500 held or waited for, 0 waiting", &title(&names[0])]);
        let room = keys(&screen).0.len();
        let heads = screen.lines().nth(1).unwrap().to_owned();
        let mut looks = BTreeSet::new();
        let mut chosen = 0;
        loop {
            looks.extend(keys(&screen).0);
            assert_eq!(screen.lines().nth(1).unwrap(), heads, "the columns stay where they are: {screen}");
            if chosen == names.len() - 1 {
                break;
            }
            pty.types("\x1b[6~");
            chosen = (chosen + room).min(names.len() - 1);
            // The screen is drawn downwards: above the text, the table is there.
            screen = pty.shows(&[&title(&names[chosen])]);
        }
        assert_eq!(looks.len(), 500, "{screen}");
    }
}
