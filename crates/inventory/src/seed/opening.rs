use std::collections::BTreeMap;

use crate::{
    domain::{Quantity, Sku},
    orders::OrderLine,
};

/// The opening quantity of every SKU, by SKU.
///
/// The rule: nine tenths of the most that the lines, taken in their order, have out of stock at any moment, rounded up,
/// but enough for the largest single line and at least one unit. So most lines are applied, and some of the last lines
/// of a SKU are refused, as in a real shop. The same lines give the same quantities.
#[must_use]
pub fn opening_stock(lines: &[OrderLine]) -> BTreeMap<&Sku, i64> {
    let mut by_sku: BTreeMap<&Sku, Balance> = BTreeMap::new();
    for line in lines {
        by_sku.entry(&line.sku).or_default().apply(line.delta.get());
    }
    by_sku.into_iter().map(|(sku, balance)| (sku, balance.opening())).collect()
}

#[derive(Default)]
struct Balance {
    /// Units that have left so far, less those that came back.
    out: i64,
    /// The greatest value `out` has had.
    deepest: i64,
    /// The most units that one line takes.
    largest: i64,
}

impl Balance {
    fn apply(&mut self, delta: i64) {
        self.out = self.out.saturating_sub(delta);
        self.deepest = self.deepest.max(self.out);
        self.largest = self.largest.max(delta.saturating_neg());
    }

    fn opening(&self) -> i64 {
        let nine_tenths = self.deepest - self.deepest / 10;
        nine_tenths.max(self.largest).clamp(1, Quantity::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Delta;

    fn sku_of(text: &str) -> Sku {
        Sku::new(text).unwrap()
    }

    fn lines(moves: &[(&str, i64)]) -> Vec<OrderLine> {
        (1..)
            .zip(moves)
            .map(|(number, &(sku, delta))| OrderLine {
                number,
                invoice: "1".into(),
                sku: sku_of(sku),
                delta: Delta::new(delta).unwrap(),
            })
            .collect()
    }

    #[test]
    fn it_is_nine_tenths_of_the_deepest_point_rounded_up() {
        let lines = lines(&[("A", -60), ("A", 10), ("A", -50), ("B", -8), ("B", -7), ("C", 5)]);
        let opening = opening_stock(&lines);
        assert_eq!(opening[&sku_of("A")], 90, "60 out, 10 back, 50 out: 100 at the deepest");
        assert_eq!(opening[&sku_of("B")], 14, "13.5 rounds up");
        assert_eq!(opening[&sku_of("C")], 1, "a SKU that only comes back still opens with a unit");
    }

    #[test]
    fn a_single_line_finds_its_goods() {
        let lines = lines(&[("A", -100), ("B", -50), ("B", -1)]);
        let opening = opening_stock(&lines);
        assert_eq!((opening[&sku_of("A")], opening[&sku_of("B")]), (100, 50));
    }

    #[test]
    fn returns_at_the_end_do_not_lower_it() {
        let lines = lines(&[("A", -50), ("A", -50), ("A", 100)]);
        assert_eq!(opening_stock(&lines)[&sku_of("A")], 90);
    }

    #[test]
    fn it_is_never_more_than_a_quantity_may_be() {
        let lines = lines(&[("A", -1_000_000_000), ("A", -1_000_000_000)]);
        assert_eq!(opening_stock(&lines)[&sku_of("A")], Quantity::MAX);
    }
}
