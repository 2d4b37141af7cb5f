//! A call of the model.

use super::Request;

/// The request that is answered, and the number of the answer.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) id: u64,
    pub(super) request: &'a Request,
}
