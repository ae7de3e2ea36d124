//! Without async: threads that block.

use std::thread;
use std::time::Duration;

use leasehold::blocking::Locks;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let locks = Locks::connect(&store)?;

    let guard = locks.mutex("printer").label("main").lock().wait()?;
    if let Err(busy) = locks.mutex("printer").lock().within(Duration::from_millis(50)).wait() {
        println!("{busy}");
    }

    let (before, next) = (guard.fence(), locks.mutex("printer").lock().within(Duration::from_secs(10)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| next.wait().expect("its turn").fence());
        guard.release().expect("held to the end");
        let after = waiting.join().expect("no panic");
        println!("printed one after the other: {}", before < after);
    });

    locks.close(Duration::from_secs(1))?;
    Ok(())
}
