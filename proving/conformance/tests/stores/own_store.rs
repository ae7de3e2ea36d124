//! The list of checks on the example's store, as an application would run it on its own.

use std::sync::Arc;

use conformance::target::Target;
use leasehold::TokioRuntime;

#[expect(dead_code, reason = "only the store of the example is used here, not its program")]
mod example {
    include!(concat!(env!("OUT_DIR"), "/own_store.rs"));
}

fn target() -> Target {
    let runtime = TokioRuntime::current().expect("a test in a tokio runtime");
    let store = Arc::new(example::MapStore::new(Arc::new(runtime)));
    Target::of_your_own("map", move |_| store.clone())
}

conformance::every_check! {
    map: target() => all, readers, permits;
}
