//! The time of a hit, by calls without a pause between them.

use std::thread;

use tokio::{runtime::Handle, time::Instant};

use crate::report::quantile;

/// How many keys the hits are spread over.
pub(crate) const KEYS: usize = 1000;
const HITS: u32 = 200_000;
const ROUNDS: usize = 15;

/// Nanoseconds for each call, on one thread and for each of two; every thread makes its own hits.
pub(crate) fn nanoseconds<H: FnMut(usize)>(make: &(impl Fn() -> H + Sync)) -> [f64; 2] {
    let runtime = Handle::current();
    let run = || {
        // A call that misses the memory asks Redis, which needs the runtime.
        let _inside = runtime.enter();
        let mut hit = make();
        let began = Instant::now();
        for i in 0..HITS as usize {
            hit(i.wrapping_mul(7919) % KEYS);
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(HITS)
    };
    [1, 2].map(|threads| {
        let round = || {
            thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                let each = running.into_iter().filter_map(|thread| thread.join().ok());
                each.sum::<f64>() / f64::from(threads)
            })
        };
        quantile((0..ROUNDS).map(|_| round()).collect(), 0.5)
    })
}
