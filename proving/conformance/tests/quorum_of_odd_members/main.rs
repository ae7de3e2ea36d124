//! What callers of a quorum are told, and what its members are asked, when some of them do
//! otherwise than the rest.

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
