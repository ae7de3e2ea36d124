//! Runs one of Rust's other lock libraries: `rust-peers NAME URL`.

mod distributed_lock;
mod redis_lock;
mod rslock;

use std::{env, process::ExitCode};

use competitor::serve;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rslock", url] => serve::<rslock::Rslock>(url),
        ["redis-lock", url] => serve::<redis_lock::RedisLock>(url),
        ["distributed-lock", url] => serve::<distributed_lock::DistributedLock>(url),
        _ => {
            eprintln!("rust-peers: is started by the comparison; run `cargo xtask bench-compare`");
            ExitCode::from(64)
        }
    }
}
