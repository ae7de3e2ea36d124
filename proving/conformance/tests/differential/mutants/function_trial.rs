//! Tries mutants of the functions in PostgreSQL, on a server.

use std::panic::{self, AssertUnwindSafe};

use servers::Postgres;
use tokio::runtime::{Builder, Runtime};

use super::{Mutant, Trial};
use crate::postgres::Tables;
use crate::scripts::Part;

/// Unchanged functions agree in so many histories before the first is changed.
const FEW: u64 = 12;

/// Most mutants are noticed by the first few.
const HISTORIES: u64 = 120;

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The functions by their names, as `leasehold init` creates them.
pub(super) fn functions() -> Vec<Part> {
    let schema = leasehold::postgres::schema_sql("postgres://h/d").unwrap();
    assert!(schema.contains(NOW), "the time is read in another way");
    let schema = schema.replace(NOW, "{now}");
    let begins: Vec<_> = schema.match_indices("\nCREATE ").map(|(at, _)| at + 1).collect();
    let quick = begins.into_iter().filter_map(|from| {
        let text = &schema[from..];
        let (head, _) = text.split_once('(')?;
        let name = head.rsplit_once('.')?.1;
        let end = text.find("$quick$;")? + "$quick$;".len();
        name.starts_with("quick_").then(|| Part { name: name.to_owned(), text: text[..end].to_owned() })
    });
    let found: Vec<_> = quick.collect();
    assert_eq!(found.len(), 3, "{found:?}");
    found
}

pub(super) struct FunctionTrial {
    runtime: Runtime,
    tables: Tables,
    _server: Postgres,
}

impl Trial for FunctionTrial {
    fn begin() -> Self {
        let server = Postgres::of(&Postgres::programs().expect("run `cargo xtask servers`"), &[]);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let tables = runtime.block_on(async {
            leasehold::postgres::init(&server.url()).await.unwrap();
            Tables::of(&server).await
        });
        let trial = Self { runtime, tables, _server: server };
        assert!(!trial.finds(FEW), "something is noticed although nothing was changed");
        trial
    }

    /// Counts a function that the server refuses, and an answer that cannot be decoded, as noticed.
    fn notices(&mut self, function: &Part, mutant: &Mutant) -> bool {
        let finds = || panic::catch_unwind(AssertUnwindSafe(|| self.finds(HISTORIES))).unwrap_or(true);
        let noticed = self.create(&function.name, &mutant.text).is_err() || finds();
        self.create(&function.name, &function.text).expect("it was accepted before");
        noticed
    }
}

impl FunctionTrial {
    /// The quick functions serve only histories with odd numbers.
    fn finds(&self, histories: u64) -> bool {
        let mut seeds = (0..histories).map(|nth| 2 * nth + 1);
        self.runtime.block_on(self.tables.agree_on_cases()).is_err()
            || seeds.any(|seed| self.runtime.block_on(self.tables.agree(seed)).is_err())
    }

    fn create(&self, function: &str, text: &str) -> Result<(), tokio_postgres::Error> {
        let text = text.replace("{now}", NOW);
        // One implicit transaction: a refused function leaves the one before.
        let text = format!("DROP ROUTINE leasehold.{function}; {text}");
        self.runtime.block_on(self.tables.execute(&text))
    }
}
