use futures_util::future::join_all;

/// How many commands of one call are sent to the store at a time. These are enough to fill a connection, and few enough
/// that commands of other calls get a turn between those of a call with very many keys.
const AT_ONCE: usize = 128;

/// Awaits all futures, some at a time, and returns their outputs in order. If it is dropped, futures that have not
/// begun never run.
pub(crate) async fn some_at_a_time<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    // All are taken out of the iterator before the first is awaited, because the iterator may not be `Send`.
    let mut waiting = futures.into_iter().collect::<Vec<_>>().into_iter();
    let mut outputs = Vec::with_capacity(waiting.len());
    while waiting.len() > 0 {
        outputs.extend(join_all(waiting.by_ref().take(AT_ONCE)).await);
    }
    outputs
}
