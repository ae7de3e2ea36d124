//! The processes that run one library.

use bench::child::Child;
use bench::turn::{Turn, Turns};
use competitor::{AnyError, Order, Report};

use crate::competitors::Competitor;

/// Processes of one competitor, each with its own client. They are killed when this is dropped.
#[derive(Debug)]
pub struct Cast(Vec<Child>);

impl Cast {
    /// Starts `count` processes, and waits until they are connected.
    pub fn start(competitor: Competitor, url: &str, count: usize) -> Result<Self, AnyError> {
        let mut all = (0..count)
            .map(|_| Child::start(&mut competitor.command(url)?))
            .collect::<Result<Vec<_>, AnyError>>()?;
        // Interpreters start slowly, so all are started before the first is waited for.
        for child in &mut all {
            report(competitor, child)?;
        }
        Ok(Self(all))
    }

    /// Thousands of cycles per second of the first process.
    pub fn cycles(&mut self, competitor: Competitor, order: &Order) -> Result<f64, AnyError> {
        self.0[0].send(order)?;
        match report(competitor, &mut self.0[0])? {
            Report::Cycles { count, nanos } => Ok(count as f64 * 1e6 / nanos as f64),
            other => Err(format!("{competitor}: answers {other:?} to {order:?}").into()),
        }
    }

    /// The turns of all processes at one key.
    pub fn turns(&mut self, competitor: Competitor, order: &Order) -> Result<Turns, AnyError> {
        for child in &mut self.0 {
            child.send(order)?;
        }
        let mut all = Vec::new();
        for (waiter, child) in (0..).zip(&mut self.0) {
            let Report::Turns { turns } = report(competitor, child)? else {
                return Err(format!("{competitor}: does not tell its turns").into());
            };
            // Other libraries have no fences: the time of acquisition gives the order.
            all.extend(turns.into_iter().map(|[asked, had, released]| Turn {
                waiter,
                asked,
                had,
                released,
                fence: had,
                asks: 0,
            }));
        }
        Ok(Turns::new(all))
    }
}

fn report(competitor: Competitor, child: &mut Child) -> Result<Report, AnyError> {
    match child.receive() {
        Ok(Report::Failed { why }) => Err(format!("{competitor}: {why}").into()),
        Ok(report) => Ok(report),
        Err(why) => Err(format!("{competitor}: {why}").into()),
    }
}
