//! The command's descriptors, signals and directory are those of a direct start, and `leasehold`
//! copes with unusual ones.

use servers::Flavor;

use crate::harness::{OURS, Site};
use crate::shell::{bash, sh};

/// Checks that a script prints the same under our command as without it, started by this prefix.
#[track_caller]
fn is_the_same_without_us(site: &Site, prefix: &[&str], script: &str) {
    let ours = [OURS, "run", "--store", site.store(), "k", "--"];
    let seen = |with: &[&str]| {
        let words: Vec<_> = prefix.iter().chain(with).chain(&["sh", "-c", script]).copied().collect();
        let done = site.finish(site.process(words[0], &words[1..])).silent(0);
        done.out
    };
    let without_us = seen(&[]);
    assert!(!without_us.is_empty());
    assert_eq!(seen(&ours), without_us, "{prefix:?}");
}

#[test]
fn directory_umask_limits_and_descriptors_are_untouched() {
    // The pipe to sed and the file for the error output differ each time.
    let script = "pwd; umask; ulimit -a; ls -l /proc/self/fd | \
                  sed -n 's/.* \\([0-9]* ->\\)/\\1/; s/pipe:.*/pipe/; s/[0-9]*\\.err/err/; s,/proc/[0-9]*/fd,fd,; /->/p'";
    for site in Site::on_file_and(Flavor::Redis62) {
        is_the_same_without_us(&site, &["env"], script);
        let unusual = ["sh", "-c", "exec 7< /dev/zero; umask 027; exec \"$@\"", "sh"];
        is_the_same_without_us(&site, &unusual, script);
    }
}

#[test]
fn signals_that_are_blocked_or_ignored_stay_so_and_no_others_are() {
    let site = Site::new();
    // The first 28. The C library may ignore its own signals 32 and 33 at any time.
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status | sed 's/[0-9a-f]*\\(.......\\)$/\\1/'";
    is_the_same_without_us(&site, &["env"], script);
    is_the_same_without_us(&site, &["env", "--block-signal=USR1", "--block-signal=TERM"], script);
    is_the_same_without_us(&site, &["env", "--ignore-signal=HUP", "--ignore-signal=TSTP"], script);
}

#[test]
fn the_environment_is_only_added_to() {
    let site = Site::new();
    is_the_same_without_us(&site, &["env", "ODD=a\nb", "EMPTY="], "env | grep -v -e ^LEASEHOLD_ | sort");
}

#[test]
fn a_run_works_with_any_standard_stream_closed() {
    let site = Site::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        sh(&site, &format!("exec leasehold run k -- sh -c 'exit 4' {closed}")).silent(4);
        // The same for an error message that nobody can read.
        sh(&site, &format!("exec leasehold run k -- /nonexistent {closed}")).exits_with(127);
    }
}

#[test]
fn a_reader_that_has_gone_ends_the_command_as_it_does_without_us_and_not_us() {
    let site = Site::new();
    let done = bash(&site, "{ leasehold run k -- yes; echo $? >&2; } | true");
    assert_eq!(done.err, format!("{}\n", 128 + 13), "{done:?}");
    // Our own messages, to a pipe without a reader.
    bash(&site, "{ leasehold run k -- /nonexistent 2>&1; echo $? > code; } | true").silent(0);
    assert_eq!(site.read("code"), "127");
}
