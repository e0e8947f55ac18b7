use clap::ValueEnum as _;
use sqlx::PgPool;

use super::{Conservation, Rule, Verdict, Violation};
use crate::orders::OrderLine;

/// Offenders named for each broken rule.
const EXAMPLES: usize = 3;

/// Checks every rule. `told` names every line that was ever sent to this database, with the outcome that its sender was
/// told. No instance may write meanwhile.
///
/// # Errors
///
/// The error of the database. A broken rule is no error: see [`Conservation::violations`].
pub async fn check(pool: &PgPool, told: &[(&OrderLine, Verdict)]) -> Result<Conservation, sqlx::Error> {
    check_rules(pool, told, Rule::value_variants()).await
}

/// Checks the rules that need no client: the ledger against the stock. Instances may write meanwhile.
///
/// # Errors
///
/// As [`check`].
pub async fn check_ledger(pool: &PgPool) -> Result<Conservation, sqlx::Error> {
    let rules = Rule::value_variants().iter().copied();
    let rules: Vec<_> = rules.filter(|rule| !rule.is_about_the_lines()).collect();
    check_rules(pool, &[], &rules).await
}

async fn check_rules(
    pool: &PgPool,
    told: &[(&OrderLine, Verdict)],
    rules: &[Rule],
) -> Result<Conservation, sqlx::Error> {
    let references: Vec<String> = told.iter().map(|(line, _)| line.reference()).collect();
    let skus: Vec<&str> = told.iter().map(|(line, _)| line.sku.as_str()).collect();
    let deltas: Vec<i64> = told.iter().map(|(line, _)| line.delta.get()).collect();
    let outcomes: Vec<&str> = told.iter().map(|(_, verdict)| outcome(*verdict)).collect();

    // One snapshot for all rules.
    let mut tx = pool.begin_with("begin isolation level repeatable read read only").await?;
    let count = "select (select count(*) from stock), (select count(*) from movement)";
    let (stock, movements): (i64, i64) = sqlx::query_as(count).fetch_one(&mut *tx).await?;
    let mut violations = Vec::new();
    for &rule in rules {
        // The text has no part that comes from outside.
        let sql = sqlx::AssertSqlSafe(rule.sql());
        let query = sqlx::query_scalar::<_, String>(sql);
        let query = if rule.is_about_the_lines() {
            query.bind(&references).bind(&skus).bind(&deltas).bind(&outcomes)
        } else {
            query
        };
        let mut offenders = query.fetch_all(&mut *tx).await?;
        if !offenders.is_empty() {
            let count = offenders.len();
            offenders.truncate(EXAMPLES);
            violations.push(Violation { rule: rule.to_string(), count, examples: offenders });
        }
    }
    tx.rollback().await?;
    Ok(Conservation { skus: stock.unsigned_abs(), movements: movements.unsigned_abs(), violations })
}

fn outcome(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Applied => "applied",
        Verdict::Refused => "refused",
        Verdict::Failed => "failed",
        Verdict::Unknown => "unknown",
    }
}
