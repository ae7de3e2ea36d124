//! One lock library of several, in a process of its own that does what it is told.
//!
//! A program in Rust implements [`Contender`] for a library and calls [`serve`]. Programs in other languages speak the same lines, an
//! [`Order`] in and a [`Report`] out.

mod bare;
mod order;
mod serve;

pub use order::{Order, Report, Times};
pub use serve::{Contender, TTL, Trouble, Visit, now, serve};
