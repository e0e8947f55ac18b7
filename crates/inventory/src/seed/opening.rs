use std::collections::BTreeMap;

use crate::orders::OrderLine;

/// The opening quantity of every SKU, by SKU.
///
/// The rule: nine tenths of the most that the lines, taken in their order, have out of stock at any moment, rounded up,
/// and at least one unit. So most lines find their goods and the last large ones of a SKU do not: they are refused, as in
/// a real shop. The same lines give the same quantities.
#[must_use]
pub fn opening_stock(lines: &[OrderLine]) -> BTreeMap<&str, i64> {
    let mut by_sku: BTreeMap<&str, Balance> = BTreeMap::new();
    for line in lines {
        by_sku.entry(&line.sku).or_default().apply(line.delta);
    }
    by_sku.into_iter().map(|(sku, balance)| (sku, nine_tenths(balance.deepest).max(1))).collect()
}

#[derive(Default)]
struct Balance {
    /// Units that have left so far, less those that came back.
    out: i64,
    /// The greatest value `out` has had.
    deepest: i64,
}

impl Balance {
    fn apply(&mut self, delta: i64) {
        self.out = self.out.saturating_sub(delta);
        self.deepest = self.deepest.max(self.out);
    }
}

fn nine_tenths(units: i64) -> i64 {
    units - units / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(moves: &[(&str, i64)]) -> Vec<OrderLine> {
        (1..)
            .zip(moves)
            .map(|(number, &(sku, delta))| OrderLine { number, invoice: "1".into(), sku: sku.into(), delta })
            .collect()
    }

    #[test]
    fn it_is_nine_tenths_of_the_deepest_point_rounded_up() {
        let lines = lines(&[("A", -60), ("A", 10), ("A", -50), ("B", -9), ("C", 5)]);
        let opening = opening_stock(&lines);
        assert_eq!(opening["A"], 90, "60 out, 10 back, 50 out: 100 at the deepest");
        assert_eq!(opening["B"], 9, "8.1 rounds up");
        assert_eq!(opening["C"], 1, "a SKU that only comes back still opens with a unit");
    }

    #[test]
    fn returns_at_the_end_do_not_lower_it() {
        let lines = lines(&[("A", -100), ("A", 100)]);
        assert_eq!(opening_stock(&lines)["A"], 90);
    }
}
