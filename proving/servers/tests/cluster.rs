//! A cluster that agrees on each move before the next one begins.

use servers::{Cluster, Flavor};

/// A move that begins before the nodes know the epoch of the last one is not believed.
#[test]
fn a_slot_can_be_moved_many_times_in_a_row() {
    for flavor in Flavor::ALL {
        let cluster = Cluster::start(flavor, 3, 0);
        for _ in 0..100 {
            cluster.hand_over(7, cluster.other(7));
        }
    }
}
