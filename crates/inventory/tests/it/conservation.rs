use clap::ValueEnum as _;
use inventory::{
    conservation::{Conservation, Rule, check},
    orders::OrderLine,
    replay::Verdict,
};
use sqlx::PgPool;
use stockade_testbed::PostgresServer;

use crate::stock_db::{execute, line, migrated};

/// Two SKUs with their opening and two movements of `A`, as the service writes them.
const LEDGER: &str = "
    insert into stock (sku, quantity) values ('A', 7), ('B', 5);
    insert into movement (sku, kind, delta, quantity, version, reference, fencing_token) values
        ('A', 'seed', 10, 10, 1, 'opening', null),
        ('B', 'seed', 5, 5, 2, 'opening', null),
        ('A', 'adjustment', -4, 6, 3, '536365#1', 100),
        ('A', 'adjustment', 1, 7, 4, '536365#2', 101);
";

/// A flash sale of two units of `B`, one of which is stored.
const SALE: &str = "
    update stock set quantity = 3 where sku = 'B';
    insert into movement (sku, kind, delta, quantity, version) values ('B', 'flash', -2, 3, 5);
    insert into flash_sale (sku, opened, per_customer, ends_at, stored) values ('B', 2, 2, now(), 1);
    insert into flash_reservation (id, sale, customer, quantity, stored) values ('1-a', 1, 'ann', 1, true);
";

async fn verdict(pool: &PgPool) -> Conservation {
    let lines: [(OrderLine, Verdict); 4] = [
        (line(1, "A", -4), Verdict::Applied),
        (line(2, "A", 1), Verdict::Unknown),
        (line(3, "B", -9), Verdict::Refused),
        (line(4, "B", -1), Verdict::Failed),
    ];
    let told: Vec<_> = lines.iter().map(|(line, verdict)| (line, *verdict)).collect();
    check(pool, &told).await.unwrap()
}

#[tokio::test]
async fn an_honest_ledger_holds() {
    let server = PostgresServer::start().await.unwrap();
    let pool = migrated(&server, "honest").await;
    execute(&pool, LEDGER).await;
    let result = verdict(&pool).await;
    assert!(result.holds(), "{result}");
    assert_eq!(result.to_string(), "conservation: ok (2 SKUs, 4 movements)");

    // An attempt of unknown outcome may as well not have been applied.
    execute(&pool, "delete from movement where reference = '536365#2'; update stock set quantity = 6 where sku = 'A'")
        .await;
    let result = verdict(&pool).await;
    assert!(result.holds(), "{result}");

    execute(&pool, SALE).await;
    let result = verdict(&pool).await;
    assert!(result.holds(), "{result}");
}

#[tokio::test]
async fn every_way_to_cheat_is_reported() {
    use Rule::{Acknowledged, Chain, Flash, NotApplied, NotNegative, Order, Sent, Sum, Transfers, Unknown};

    let cheats: [(&str, &str, &[Rule]); 16] = [
        ("quantity", "update stock set quantity = 8 where sku = 'A'", &[Sum]),
        ("row_gone", "delete from stock where sku = 'B'", &[Sum]),
        ("deleted", "delete from movement where reference = '536365#1'", &[Sum, Chain, Acknowledged]),
        (
            "doubled",
            "insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
             values ('A', 'adjustment', -4, 3, 5, '536365#1', 102); update stock set quantity = 3 where sku = 'A'",
            &[Acknowledged],
        ),
        (
            "unknown_twice",
            "insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
             values ('A', 'adjustment', 1, 8, 5, '536365#2', 102); update stock set quantity = 8 where sku = 'A'",
            &[Unknown],
        ),
        (
            "lost_update",
            "update movement set quantity = 11 where reference = '536365#2';
             update stock set quantity = 11 where sku = 'A'",
            &[Sum, Chain],
        ),
        (
            "refused_applied",
            "update stock set quantity = 14 where sku = 'B';
             insert into movement (sku, kind, delta, quantity, version, reference) values
                 ('B', 'set', 18, 23, 5, 'more'), ('B', 'adjustment', -9, 14, 6, '536365#3')",
            &[NotApplied],
        ),
        (
            "failed_applied",
            "update stock set quantity = 4 where sku = 'B';
             insert into movement (sku, kind, delta, quantity, version, reference)
             values ('B', 'adjustment', -1, 4, 5, '536365#4')",
            &[NotApplied],
        ),
        (
            "not_sent",
            "update stock set quantity = 3 where sku = 'B';
             insert into movement (sku, kind, delta, quantity, version, reference)
             values ('B', 'adjustment', -2, 3, 5, 'who?')",
            &[Sent],
        ),
        (
            "other_delta",
            "update movement set delta = -3, quantity = 7 where reference = '536365#1';
             update movement set quantity = 8 where reference = '536365#2';
             update stock set quantity = 8 where sku = 'A'",
            &[Acknowledged, Sent],
        ),
        ("stale_token", "update movement set fencing_token = 99 where reference = '536365#2'", &[Order]),
        (
            "half_a_transfer",
            "update stock set quantity = 3 where sku = 'B';
             insert into movement (sku, kind, delta, quantity, version) values ('B', 'transfer', -2, 3, 5)",
            &[Transfers],
        ),
        ("flash_unsold_kept", "update flash_sale set closing = true, closed_at = now();", &[Flash]),
        ("flash_unknown_sale", "delete from flash_reservation; delete from flash_sale;", &[Flash]),
        ("flash_stored_nowhere", "delete from flash_reservation;", &[Flash]),
        (
            "negative",
            "alter table stock drop constraint stock_quantity_range;
             alter table movement drop constraint movement_quantity_range;
             update stock set quantity = -1 where sku = 'B';
             insert into movement (sku, kind, delta, quantity, version) values ('B', 'set', -6, -1, 5)",
            &[NotNegative],
        ),
    ];
    let server = PostgresServer::start().await.unwrap();
    for (name, cheat, broken) in cheats {
        let pool = migrated(&server, name).await;
        execute(&pool, LEDGER).await;
        if broken.contains(&Flash) {
            execute(&pool, SALE).await;
        }
        execute(&pool, cheat).await;
        let result = verdict(&pool).await;
        let found: Vec<&str> = result.violations.iter().map(|violation| &*violation.rule).collect();
        assert_eq!(found, broken.iter().map(Rule::to_string).collect::<Vec<_>>(), "{name}: {result}");
        assert!(result.to_string().starts_with("conservation: VIOLATED"), "{result}");
        pool.close().await;
    }
    for rule in Rule::value_variants() {
        assert!(cheats.iter().any(|(_, _, broken)| broken.contains(rule)), "no cheat breaks {rule:?}");
    }
}
