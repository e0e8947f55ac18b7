use std::fmt;

use clap::ValueEnum;

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Rule {
    /// A quantity is the sum of its movements; without a row, the sum is zero.
    Sum,
    /// No quantity is negative, now or after any movement.
    NotNegative,
    /// Each movement goes on where the one before it ended: a lost update or a lost movement breaks the chain.
    Chain,
    /// A transfer gives one SKU exactly as many units as it takes from the other.
    Transfers,
    /// The units that went into flash sales and did not come back are stored, or not sold yet.
    Flash,
    /// Versions grow and fencing tokens do not fall along the movements of a SKU.
    Order,
    /// An acknowledged line is in the ledger exactly once.
    Acknowledged,
    /// A line that was refused or failed is not in the ledger.
    NotApplied,
    /// A line of unknown outcome is in the ledger at most once.
    Unknown,
    /// Every adjustment in the ledger was sent.
    Sent,
}

impl Rule {
    /// The statement that gives the offenders as text. `$1` to `$4` are the lines that were sent, where they are
    /// needed: references, SKUs, deltas and outcomes.
    pub(super) fn sql(self) -> String {
        match self {
            Self::Sum => include_str!("sql/sum.sql").to_owned(),
            Self::NotNegative => include_str!("sql/not_negative.sql").to_owned(),
            Self::Chain => include_str!("sql/chain.sql").to_owned(),
            Self::Order => include_str!("sql/order.sql").to_owned(),
            Self::Transfers => include_str!("sql/transfers.sql").to_owned(),
            Self::Flash => include_str!("sql/flash.sql").to_owned(),
            Self::Acknowledged => lines_whose_count("'applied'", "<> 1"),
            Self::NotApplied => lines_whose_count("'refused', 'failed'", "<> 0"),
            Self::Unknown => lines_whose_count("'unknown'", "> 1"),
            Self::Sent => include_str!("sql/sent.sql").to_owned(),
        }
    }

    pub(super) fn is_about_the_lines(self) -> bool {
        matches!(self, Self::Acknowledged | Self::NotApplied | Self::Unknown | Self::Sent)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "quantity is not the sum of the movements",
            Self::NotNegative => "negative quantity",
            Self::Chain => "movement does not go on from the one before",
            Self::Transfers => "transfer that does not give what it takes",
            Self::Flash => "flash sale that does not add up",
            Self::Order => "versions or fencing tokens out of order",
            Self::Acknowledged => "acknowledged line not in the ledger exactly once",
            Self::NotApplied => "line in the ledger although it was not applied",
            Self::Unknown => "line in the ledger more than once",
            Self::Sent => "movement that nobody sent",
        })
    }
}

/// The query for the order lines with one of these outcomes and a wrong number of movements in the ledger. A line
/// without a movement counts zero.
fn lines_whose_count(outcomes: &str, is_wrong: &str) -> String {
    format!(
        "select told.reference || ' (' || told.sku || '): ' || count(movement.id) || ' times in the ledger'
         from unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) as told (reference, sku, delta, outcome)
         left join movement on movement.kind = 'adjustment' and movement.reference = told.reference
             and movement.sku = told.sku and movement.delta = told.delta
         where told.outcome in ({outcomes})
         group by told.reference, told.sku
         having count(movement.id) {is_wrong}
         order by 1"
    )
}
