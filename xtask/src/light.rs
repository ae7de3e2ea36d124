//! Tests which crates a small build of the library compiles.

use std::process::Command;

use crate::{step::workspace, tool};

/// The crates of a build of the library with these features alone.
fn crates_with(features: &str) -> Vec<String> {
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--package", "leasehold", "--no-default-features", "--features", features]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}", "--locked", "--offline"]);
    let tree = tool::run(tree.current_dir(workspace())).expect("cargo knows the dependencies");
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn locks_on_redis_alone_need_neither_rustls_nor_a_c_compiler() {
    let heavy = ["rustls", "ring", "cc", "libsqlite3-sys"];
    let found = |features| {
        let crates = crates_with(features);
        assert!(crates.iter().any(|name| name == "redis"), "{crates:?}");
        heavy.into_iter().filter(|name| crates.iter().any(|known| known == name)).collect::<Vec<_>>()
    };
    assert_eq!(found("redis"), [""; 0]);
    assert_eq!(found("redis,tls"), ["rustls", "ring", "cc"]);
    assert_eq!(found("redis,tls,file"), heavy);
}
