//! The error of every part of the benchmark.

use std::error::Error;

/// Any error of the benchmark, as text.
pub type AnyError = Box<dyn Error + Send + Sync>;
