use std::time::Duration;

use axum::response::Response;

/// How long a request waited for the locks of its routes. It is among the extensions of the response, also of a
/// refusal, for use in logs. The response has none if no lock was asked for, or if a read entered under a delegation,
/// which waits for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait(pub Duration);

impl LockWait {
    /// Adds this wait to that of a lock further in.
    pub(crate) fn note(self, response: &mut Response) {
        let within = response.extensions().get::<Self>().map_or(Duration::ZERO, |within| within.0);
        response.extensions_mut().insert(Self(self.0 + within));
    }
}
