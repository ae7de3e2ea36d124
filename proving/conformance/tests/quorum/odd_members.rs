//! The answers of a quorum, and its requests to the members, if some members deviate from the rest.

mod breaking;
mod diagnosing;
mod facade;
mod granting;
mod keeping;
mod looking;
mod obstacles;
mod undoing;
mod waiting;
mod world;
