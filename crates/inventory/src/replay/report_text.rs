use std::fmt;

use super::{Counters, Lines, Report, Source};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lines { applied, refused, failed, unknown, replayed, retries, skipped, failures } = &self.lines;
        let reads = &self.reads;
        writeln!(f, "order lines   applied {applied}, refused {refused}, failed {failed}, unknown {unknown}")?;
        writeln!(f, "              retries {retries}, applied by an earlier attempt or run {replayed}")?;
        for (reason, count) in skipped {
            writeln!(f, "              skipped {count}: {reason}")?;
        }
        for (reason, count) in failures {
            writeln!(f, "              given up {count}: {reason}")?;
        }
        writeln!(f, "adjust        {} ({} lines)", self.adjust, self.adjust.count)?;
        writeln!(f, "get           {} ({} answers), failed {}", self.get, self.get.count, reads.failed)?;
        for (reason, count) in &reads.failures {
            writeln!(f, "              failed {count}: {reason}")?;
        }
        if let Some(ratio) = reads.hit_ratio {
            let [local, redis, either, absent, stale, loads, collapsed, shed] =
                Source::ALL.map(|source| reads.answers.from(source));
            writeln!(
                f,
                "cache         hit ratio {:.1} %: local {local}, redis {redis}, one of both {either}, absent {absent}, \
                 stale {stale}; loads {loads}, collapsed {collapsed}, shed {shed}",
                ratio * 100.0
            )?;
        }
        if reads.answers.degraded > 0 {
            writeln!(f, "              degraded answers {}", reads.answers.degraded)?;
        }
        if let Some(fleet) = &self.fleet {
            let Counters { loads, handoffs, locks_lost, fence_rejected } = fleet;
            writeln!(
                f,
                "fleet         database loads {loads}, hand-offs {handoffs}, locks lost {locks_lost}, fence refusals {fence_rejected}"
            )?;
        }
        write!(
            f,
            "throughput    {:.0} lines/s, {:.0} requests/s over {:.1} s",
            self.lines_per_second,
            self.requests_per_second,
            self.elapsed.as_secs_f64()
        )
    }
}
