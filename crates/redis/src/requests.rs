//! Requests to one server, each a single try with a time limit: a file for each kind.

pub(crate) mod baseline;
pub(crate) mod confirm;
mod grant;
pub(crate) mod later;
pub(crate) mod list;
mod member;
pub(crate) mod remembered;
pub(crate) mod renew;
mod scan;
mod transfer;
