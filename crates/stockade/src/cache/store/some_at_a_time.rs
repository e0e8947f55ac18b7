use futures_util::future::join_all;

/// How many questions of one call to the store are under way at a time: enough to fill a connection, few enough that
/// the calls of others find their places between those of one with very many keys.
const AT_ONCE: usize = 128;

/// Awaits all of them, some at a time, in their order. Dropping it leaves those that were not begun undone.
pub(crate) async fn some_at_a_time<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    // Taken out of the iterator before the first is awaited: it may borrow what can't be sent between threads.
    let mut waiting = futures.into_iter().collect::<Vec<_>>().into_iter();
    let mut outputs = Vec::with_capacity(waiting.len());
    while waiting.len() > 0 {
        outputs.extend(join_all(waiting.by_ref().take(AT_ONCE)).await);
    }
    outputs
}
