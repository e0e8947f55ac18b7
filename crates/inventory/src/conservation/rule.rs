use std::fmt;

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    // Each statement gives the offenders as text. $1 to $4 are the lines that were sent, where they are needed:
    // references, SKUs, deltas and outcomes.
    // language=PostgreSQL
    pub(super) fn sql(self) -> String {
        match self {
            Self::Sum => "
                select sku || ': quantity ' || coalesce(stock.quantity::text, 'none') || ', sum ' || coalesce(total, 0)
                from stock full join (select sku, sum(delta) as total from movement group by sku) as ledger using (sku)
                where coalesce(stock.quantity, 0) <> coalesce(total, 0)
                order by 1"
                .to_owned(),
            Self::NotNegative => "
                select sku || ': quantity ' || quantity from stock where quantity < 0
                union all
                select sku || ': quantity ' || quantity || ' after movement ' || id from movement where quantity < 0
                order by 1"
                .to_owned(),
            Self::Chain => "
                select sku || ': movement ' || id || ' leaves ' || quantity || ' instead of ' || before + delta
                from (select *, lag(quantity, 1, 0::bigint) over (partition by sku order by id) as before from movement)
                    as step
                where quantity <> before + delta
                order by 1"
                .to_owned(),
            Self::Order => "
                select sku || ': movement ' || id || ' has version ' || version || ' after ' || version_before
                    || ', token ' || coalesce(fencing_token::text, 'none') || ' after '
                    || coalesce(token_before::text, 'none')
                from (
                    select *, lag(version) over of_sku as version_before, max(fencing_token) over earlier as token_before
                    from movement
                    window of_sku as (partition by sku order by id),
                           earlier as (partition by sku order by id rows between unbounded preceding and 1 preceding)
                ) as step
                where version <= version_before or fencing_token < token_before
                order by 1"
                .to_owned(),
            // Movements of one transaction have the same time. If two transactions have it, their sum is still zero.
            Self::Transfers => "
                select 'at ' || created_at || ': ' || count(*) || ' movements, sum ' || sum(delta)
                from movement where kind = 'transfer'
                group by created_at
                having sum(delta) <> 0
                order by 1"
                .to_owned(),
            Self::Flash => "
                select 'flash sales of ' || sku || ': movements ' || coalesce(moved, 0) || ', sales ' || coalesce(held, 0)
                from (select sku, sum(delta) as moved from movement where kind = 'flash' group by sku) as ledger
                full join (
                    select sku, -sum(case when closed_at is null then opened else stored end) as held
                    from flash_sale group by sku
                ) as sales using (sku)
                where coalesce(moved, 0) <> coalesce(held, 0)
                union all
                select 'flash sale ' || id || ': stored ' || stored || ', reservations ' || coalesce(units, 0)
                from flash_sale
                left join (select sale, sum(quantity) as units from flash_reservation where stored group by sale) as of_sale
                    on sale = id
                where stored <> coalesce(units, 0)
                order by 1"
                .to_owned(),
            Self::Acknowledged => lines_whose_count("'applied'", "<> 1"),
            Self::NotApplied => lines_whose_count("'refused', 'failed'", "<> 0"),
            Self::Unknown => lines_whose_count("'unknown'", "> 1"),
            Self::Sent => "
                select coalesce(movement.reference, 'no reference') || ' (' || movement.sku || '): ' || movement.delta
                from movement
                left join unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) as told (reference, sku, delta, outcome)
                    using (reference, sku, delta)
                where movement.kind = 'adjustment' and told.outcome is null
                order by 1"
                .to_owned(),
        }
    }

    pub(super) fn is_about_the_lines(self) -> bool {
        matches!(self, Self::Acknowledged | Self::NotApplied | Self::Unknown | Self::Sent)
    }

    /// All rules.
    pub const ALL: [Self; 10] = [
        Self::Sum,
        Self::NotNegative,
        Self::Chain,
        Self::Transfers,
        Self::Flash,
        Self::Order,
        Self::Acknowledged,
        Self::NotApplied,
        Self::Unknown,
        Self::Sent,
    ];
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
