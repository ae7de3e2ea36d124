//! One of several lock libraries, in a separate process that follows orders.
//!
//! A Rust program implements [`Competitor`] for a library and calls [`serve`]. Programs in other
//! languages use the same lines, an [`Order`] in and a [`Report`] out.

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
