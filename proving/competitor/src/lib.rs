//! One of several lock libraries, in a process that follows orders: a Rust program implements
//! [`Competitor`] and calls [`serve`]; other languages read lines of [`Order`], and write [`Report`].

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::missing_errors_doc,
    reason = "this crate is not published; a comment says what a name does not"
)]

mod bare;
mod cycle;
mod order;
mod serve;

pub use bare::BareServer;
pub use cycle::{AnyError, TTL};
pub use order::{Order, Report, Times};
pub use serve::{Competitor, Visit, answer, follow_orders, now, serve};
