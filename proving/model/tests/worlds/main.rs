//! In small worlds the rules hold, and each of them is needed. `cargo test -p model -- --nocapture`
//! prints each counterexample and each sound world's size; `-- --ignored` explores the larger
//! worlds.

use model::explore::{World, explore};

/// Defines a test for each row: the world, or each of several, is sound and has so many states.
macro_rules! sound {
    ($world:ident: $($(#[$attribute:meta])* $test:ident: $($scope:expr => $states:literal),+;)+) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                $(crate::is_sound($world::new(None, &$scope), LIMIT, $states);)+
            }
        )+
    };
}

/// Defines a test for each row: without a rule, the world breaks in this way.
macro_rules! needed {
    ($world:ident: $($(#[$attribute:meta])* $test:ident: $flaw:ident, $scope:expr => $fault:expr;)+) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                let world = $world::new(Some(Flaw::$flaw), &$scope);
                crate::breaks(stringify!($flaw), world, LIMIT, $fault);
            }
        )+
    };
}

mod quorum;
mod store;
mod together;

const TWO_BELIEVE: &str = "two believe that they hold";
const DOES_NOT_RISE: &str = "a fence does not rise";
const PASSED_OVER: &str = "a live waiter was passed over";

fn is_sound(world: impl World, limit: usize, at_least: usize) {
    let states = explore(world, limit).sound();
    println!("{states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn breaks(flaw: &str, world: impl World, limit: usize, fault: &str) {
    let trace = explore(world, limit).broken();
    println!("{flaw}: {trace}");
    assert_eq!(trace.fault, fault, "{trace}");
}
