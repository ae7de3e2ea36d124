//! How far the boot clock of a time namespace is ahead of the machine's.

use std::fs;
use std::io;
use std::path::Path;

/// The offset that `unshare --time --boottime` or a container's configuration added to this
/// process's boot clock: time_namespaces(7).
pub(super) fn boot_clock_ahead() -> Result<i64, String> {
    /// The time namespace in which the machine was booted: `PROC_TIME_INIT_INO` of
    /// `linux/proc_ns.h`.
    const OF_THE_MACHINE: &str = "time:[4026531834]";
    let read = |error: io::Error, path: &str| format!("cannot read {path}: {error}");
    let namespace = |path| match fs::read_link(path) {
        Ok(name) => Ok(Some(name)),
        // Before Linux 5.6 there are no time namespaces.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(read(error, path)),
    };
    let own = namespace("/proc/self/ns/time")?;
    if own.as_deref().is_none_or(|own| own == Path::new(OF_THE_MACHINE)) {
        return Ok(0);
    }
    // The file shows the offsets for child processes.
    if namespace("/proc/self/ns/time_for_children")? != own {
        return Err("the boot clock of this time namespace cannot be compared with the machine's, as the children of this \
                    process have another one: start this program as a child of the one that called unshare"
            .into());
    }
    let path = "/proc/self/timens_offsets";
    let offsets = fs::read_to_string(path).map_err(|error| read(error, path))?;
    offset_in(&offsets).ok_or_else(|| format!("{path} has no offset of the boot clock"))
}

/// The offset of the boot clock, from lines with a clock, seconds and nanoseconds.
fn offset_in(text: &str) -> Option<i64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next().filter(|clock| ["boottime", "7"].contains(clock))?;
        let [seconds, nanos]: [i64; 2] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_that_of_the_boot_clock() {
        let text = "monotonic           5         0\nboottime        86400  500000000\n";
        assert_eq!(offset_in(text), Some(86_400_500_000_000));
        assert_eq!(offset_in("boottime -7 0"), Some(-7_000_000_000));
        for other in
            ["", "monotonic 5 0", "boottime", "boottime 1", "boottime x 0", "boottime 9223372036854775807 0"]
        {
            assert_eq!(offset_in(other), None, "{other}");
        }
    }
}
