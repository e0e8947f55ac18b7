use indicatif::HumanCount;

use super::{Attack, meter::Figures};
use crate::lab::Count;

/// The result of an attack, in a sentence or two.
pub(super) fn verdict(attack: Attack, on: &Figures, off: &Figures) -> String {
    let sentence = match attack {
        Attack::Breakdown => format!(
            "With the defences {} answered {} callers, the slowest after {}. Without them Postgres was asked {}, and the \
             slowest caller waited {}.",
            loads(on.loads),
            count(on.answered),
            time(on.slowest_ms),
            times(off.loads),
            time(off.slowest_ms),
        ),
        Attack::Penetration => format!(
            "With the defences Postgres was asked {} about {} ids that do not exist. Without them it was asked {}.",
            times(on.loads),
            count(on.answered),
            times(off.loads),
        ),
        Attack::Avalanche => format!(
            "With the defences at most {} wanted Postgres at the same moment, and the slowest read took {}. Without \
             them {} did, and the slowest read took {}.",
            loads(on.most_loading),
            time(on.slowest_ms),
            count(off.most_loading),
            time(off.slowest_ms),
        ),
        Attack::SlowPostgres => format!(
            "With the defences {} reads were answered, half of them within {}. Without them {} were, and half of them \
             waited {} or longer.",
            count(on.answered),
            time(on.p50_ms),
            count(off.answered),
            time(off.p50_ms),
        ),
        Attack::LastUnit => format!("With the defences {}. Without them {}.", sold(on), sold(off)),
        Attack::StoppedHolder => return stopped_holders(on, off),
        Attack::KilledHolder => return waiters_of_one_killed(on, off),
        Attack::FrozenRedis => format!(
            "Redis stood still for 5 s. With the defences the slowest of {} reads took {}. Without them it took {}.",
            count(on.answered + on.failed),
            time(on.slowest_ms),
            time(off.slowest_ms),
        ),
        Attack::RestartedRedis => return reads_of_a_restarted_redis(on, off),
        Attack::FlushedRedis => format!(
            "Redis lost all its keys. With the defences {} filled the cache again, and the slowest read took {}. \
             Without them Postgres was asked {}, and the slowest read took {}.",
            loads(on.loads),
            time(on.slowest_ms),
            times(off.loads),
            time(off.slowest_ms),
        ),
    };
    match [on.failed, off.failed] {
        [0, 0] => sentence,
        [on, off] => format!("{sentence} Callers that got an error: {} with, {} without.", count(on), count(off)),
    }
}

fn stopped_holders(on: &Figures, off: &Figures) -> String {
    format!(
        "With the fence {} stopped holders were refused, and {}. Without it {} were, and {}.",
        count(on.failed),
        known(on.stock.unwrap_or_default()),
        count(off.failed),
        known(off.stock.unwrap_or_default()),
    )
}

fn waiters_of_one_killed(on: &Figures, off: &Figures) -> String {
    format!(
        "The holder of a lock was killed. With the defences {} of {} waiters got the lock, the last after {}. \
                 Without them {} of {} did, in {}.",
        count(on.answered),
        count(on.answered + on.failed),
        time(on.slowest_ms),
        count(off.answered),
        count(off.answered + off.failed),
        time(off.slowest_ms),
    )
}

fn reads_of_a_restarted_redis(on: &Figures, off: &Figures) -> String {
    format!(
        "Redis was killed and came back empty. With the defences {} of {} reads failed, and Postgres was asked \
                 {}. Without them {} failed, and it was asked {}.",
        count(on.failed),
        count(on.answered + on.failed),
        times(on.loads),
        count(off.failed),
        times(off.loads),
    )
}

fn sold(side: &Figures) -> String {
    let stock = side.stock.unwrap_or_default();
    format!("{} of {} units were sold, and {}", units(stock.sold), units(stock.units), known(stock))
}

/// Whether each sale is in the stock.
fn known(stock: Count) -> String {
    match stock.lost {
        0 => format!("the stock knows of all {} sales", units(stock.sold)),
        lost if lost > 0 => format!("the stock does not know of {} of {} sales", units(lost), units(stock.sold)),
        short => format!("the stock is {} lower than its {} sales explain", units(short), units(stock.sold)),
    }
}

fn units(many: i64) -> String {
    count(many.unsigned_abs())
}

fn loads(many: u64) -> String {
    if many == 1 { "1 load".to_owned() } else { format!("{} loads", count(many)) }
}

fn times(many: u64) -> String {
    if many == 1 { "once".to_owned() } else { format!("{} times", count(many)) }
}

fn count(many: u64) -> String {
    HumanCount(many).to_string()
}

fn time(millis: f64) -> String {
    if millis < 1_000.0 { format!("{millis:.0} ms") } else { format!("{:.1} s", millis / 1_000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_what_each_side_cost() {
        let on = Figures { answered: 2_000, loads: 1, most_loading: 37, slowest_ms: 30.4, ..Default::default() };
        let off = Figures { answered: 2_000, loads: 1_987, most_loading: 250, slowest_ms: 10_012.0, ..on };
        let cases = [
            (
                Attack::Breakdown,
                "With the defences 1 load answered 2,000 callers, the slowest after 30 ms. Without them Postgres was \
                 asked 1,987 times, and the slowest caller waited 10.0 s.",
            ),
            (
                Attack::Penetration,
                "With the defences Postgres was asked once about 2,000 ids that do not exist. Without them it was asked \
                 1,987 times.",
            ),
            (
                Attack::Avalanche,
                "With the defences at most 37 loads wanted Postgres at the same moment, and the slowest read took 30 ms. \
                 Without them 250 did, and the slowest read took 10.0 s.",
            ),
            (
                Attack::KilledHolder,
                "The holder of a lock was killed. With the defences 2,000 of 2,000 waiters got the lock, the last after \
                 30 ms. Without them 2,000 of 2,000 did, in 10.0 s.",
            ),
            (
                Attack::FrozenRedis,
                "Redis stood still for 5 s. With the defences the slowest of 2,000 reads took 30 ms. Without them it \
                 took 10.0 s.",
            ),
            (
                Attack::RestartedRedis,
                "Redis was killed and came back empty. With the defences 0 of 2,000 reads failed, and Postgres was \
                 asked once. Without them 0 failed, and it was asked 1,987 times.",
            ),
            (
                Attack::FlushedRedis,
                "Redis lost all its keys. With the defences 1 load filled the cache again, and the slowest read took \
                 30 ms. Without them Postgres was asked 1,987 times, and the slowest read took 10.0 s.",
            ),
        ];
        for (attack, expected) in cases {
            assert_eq!(verdict(attack, &on, &off), expected);
        }
        let sold = |units| Some(Count::new(100, units, 0));
        let fenced = Figures { stock: sold(100), failed: 10, ..on };
        let unfenced = Figures { stock: sold(287), ..off };
        assert_eq!(
            verdict(Attack::LastUnit, &fenced, &unfenced),
            "With the defences 100 of 100 units were sold, and the stock knows of all 100 sales. Without them 287 of 100 \
             units were sold, and the stock does not know of 187 of 287 sales. Callers that got an error: 10 with, 0 \
             without.",
        );
        assert_eq!(
            verdict(Attack::StoppedHolder, &fenced, &unfenced),
            "With the fence 10 stopped holders were refused, and the stock knows of all 100 sales. Without it 0 were, and \
             the stock does not know of 187 of 287 sales.",
        );

        let short = Figures { stock: Some(Count::new(100, 99, 0)), ..on };
        let told = verdict(Attack::StoppedHolder, &short, &unfenced);
        assert!(told.contains("and the stock is 1 lower than its 99 sales explain. Without"), "{told}");

        let failing = Figures { failed: 1_234_567, ..off };
        let told = verdict(Attack::Penetration, &on, &failing);
        assert!(told.ends_with("Callers that got an error: 0 with, 1,234,567 without."), "{told}");
    }
}
