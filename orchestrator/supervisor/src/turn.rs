//! Giving way to the other futures of a task.

use tokio::task::yield_now;

/// After so much that was done at once, in bytes, it is the others' turn.
const TURN: usize = 16 * 1024;
/// What a piece costs beside its bytes: it is looked at, taken apart and handed over.
const PIECE: usize = 256;

/// Counts what is read and handed over, and gives way after a while, however much more there is.
///
/// A future that always has something to do never waits, so that timers and signals that are awaited
/// beside it in the same task are not looked at. Tokio's own budget does not help: when it is used up,
/// the others are not ready either.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnBudget {
    spent: usize,
}

impl TurnBudget {
    /// Counts a piece of so many bytes, and gives way when the turn is over. Nothing is lost when the
    /// future is dropped.
    pub async fn spend(&mut self, bytes: usize) {
        self.count(bytes);
        self.give_way().await;
    }

    /// Counts a piece of so many bytes.
    pub const fn count(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes).saturating_add(PIECE);
    }

    /// Gives way if the turn is over.
    pub async fn give_way(&mut self) {
        if self.spent >= TURN {
            self.spent = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn gives_way_by_bytes_and_by_pieces_and_not_before() {
        let given_way = async |bytes: usize, pieces: usize| {
            let mut budget = TurnBudget::default();
            let work = async {
                for _ in 0..pieces {
                    budget.spend(bytes).await;
                }
            };
            // Whoever is polled first and does not give way has ended by the first look.
            let others_first = async { tokio::task::consume_budget().await };
            tokio::select! {
                biased;
                () = work => false,
                () = others_first => true,
            }
        };
        assert!(!given_way(1, 10).await);
        assert!(given_way(1, 1000).await, "many small pieces");
        assert!(given_way(1024 * 1024, 1).await, "a large one");
        assert!(!given_way(1024, 10).await);
    }
}
