//! Runs a lock library, `rust-peers NAME URL`, or a checked write, `rust-peers write DRIVER URL FENCE`.

mod checked_write;
mod distributed_lock;
mod redis_lock;
mod rslock;
mod sqlx_advisory;

use std::{env, process::ExitCode};

use competitor::serve;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rslock", url] => serve::<rslock::Rslock>(url),
        ["redis-lock", url] => serve::<redis_lock::RedisLock>(url),
        ["distributed-lock", url] => serve::<distributed_lock::DistributedLock>(url),
        ["distributed-lock-postgres", url] => serve::<distributed_lock::OnPostgres>(url),
        ["sqlx", url] => serve::<sqlx_advisory::Sqlx>(url),
        ["write", driver, url, fence] => write(driver, url, fence),
        _ => {
            eprintln!("rust-peers: is started by the comparison; run `cargo xtask bench-compare`");
            ExitCode::from(64)
        }
    }
}

fn write(driver: &str, url: &str, fence: &str) -> ExitCode {
    let written = fence.parse().map_err(Into::into).and_then(|fence| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(checked_write::write(driver, url, fence))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
