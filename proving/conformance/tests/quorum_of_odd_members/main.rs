//! What callers of a quorum are told, and what its members are asked, if some members deviate from
//! the rest.

mod breaking;
mod diagnosing;
mod facade;
mod granting;
mod keeping;
mod looking;
mod obstacles;
mod odd;
mod undoing;
mod waiting;
mod world;
