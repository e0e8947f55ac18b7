//! Adjustments of many SKUs at the same time.

use futures_util::future::join_all;

use crate::stage::{Answer, Stage};

const SKUS: usize = 16;
const ROUNDS: usize = 12;

#[tokio::test]
async fn adjustments_that_share_a_transaction_are_answered_one_by_one() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in 0..SKUS {
        instance.put(&format!("S{sku}"), 2).await;
    }
    // Each SKU is asked for a unit twelve times, half of the times under a key. There are two units of each, and one SKU
    // does not exist.
    let requests = (0..ROUNDS).flat_map(|round| (0..=SKUS).map(move |sku| (round, sku)));
    let answers = join_all(requests.map(async |(round, sku)| {
        let request = instance.adjustment(&format!("S{sku}"), -1);
        let request =
            if round % 2 == 0 { request.header("idempotency-key", format!("{round}-{sku}")) } else { request };
        (sku, Answer::to(request).await)
    }))
    .await;
    let (mut sold, mut refused) = ([0; SKUS], [0; SKUS]);
    for (sku, answer) in &answers {
        match (*sku, answer.status.as_u16()) {
            (SKUS, 404) => {}
            (sku, 200) => {
                sold[sku] += 1;
                assert_eq!(answer.json()["sku"], format!("S{sku}"));
                assert_eq!(answer.json()["fencing_token"].to_string(), answer.header("fencing-token"));
            }
            (sku, 409) => {
                refused[sku] += 1;
                assert_eq!(
                    (answer.problem(), answer.json()["available"].as_i64()),
                    ("insufficient-stock".into(), Some(0))
                );
            }
            _ => panic!("S{sku}: {answer:?}"),
        }
    }
    assert_eq!((sold, refused), ([2; SKUS], [ROUNDS - 2; SKUS]));
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 0);
    assert_eq!(stage.count("select count(*) from movement where kind = 'adjustment'").await, 32);
    // Half of the answers are kept, refusals as well.
    assert_eq!(stage.count("select count(*) from idempotency").await, 96);
    let transactions = stage.count("select count(distinct xmin::text) from movement where kind = 'adjustment'").await;
    assert!(transactions < 32, "none of {transactions} transactions was shared");
    let metrics = instance.metrics().await;
    let value = |series: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{metrics}"));
        line.trim().parse::<usize>().unwrap()
    };
    assert_eq!(value("stockade_group_changes_total "), answers.len());
    let transactions = value("stockade_group_commits_total{outcome=\"ok\"} ");
    assert!(transactions < answers.len(), "{transactions} transactions for {} changes", answers.len());
}

#[tokio::test]
async fn a_row_that_somebody_holds_delays_no_adjustment_of_another() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in ["A", "B", "C"] {
        instance.put(sku, 10).await;
    }
    let holder = stage.hold_row().await;
    let held = instance.adjust("A", -1);
    let others = async {
        stage.until_one_waits_for_a_row().await;
        let answers = join_all((0..8).flat_map(|_| ["B", "C"]).map(|sku| instance.adjust(sku, -1))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    };
    let (held, ()) = tokio::join!(held, others);
    assert_eq!(held.problem(), "fence-busy", "{held:?}");
    holder.rollback().await.unwrap();
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 14);
}
