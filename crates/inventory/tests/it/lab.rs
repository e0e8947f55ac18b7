use std::{process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

/// Only a lab that hangs reaches this limit.
const LIMIT: Duration = Duration::from_secs(120);

async fn lab(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.arg("lab").args(args).kill_on_drop(true).stdin(Stdio::null());
    let output = timeout(LIMIT, command.output()).await.unwrap().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out, err)
}

async fn rows(args: &[&str]) -> Vec<Value> {
    let (good, out, err) = lab(&[args, &["--json"]].concat()).await;
    assert!(good, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The count of this name in a row.
fn count(row: &Value, name: &str) -> i64 {
    row[name].as_i64().unwrap_or_else(|| panic!("{name} is no count in {row}"))
}

#[tokio::test]
async fn schemes_that_are_right_sell_every_unit_once() {
    let schemes = "setnx-del,setnx-getset,set-nx-px,redlock,stockade-unfenced,stockade,for-update,\
                   conditional-update,optimistic,decrby,script,flash";
    let rows = rows(&["--units", "60", "--seconds", "20", "--workers", "8", "--only", schemes]).await;
    assert_eq!(rows.len(), schemes.split(',').count());
    for row in &rows {
        assert_eq!([count(row, "sold"), count(row, "lost"), count(row, "oversold")], [60, 0, 0], "{row}");
    }
    let asked = |scheme: &str, what: &str| {
        rows.iter().find(|row| row["scheme"] == scheme).and_then(|row| row[what].as_f64()).unwrap()
    };
    assert!(asked("stockade", "commands") >= 2.0 && asked("decrby", "commands") >= 1.0);
    assert!(asked("for-update", "statements") >= 4.0 && asked("script", "statements") < 1.0);
    // A flash sale sells in Redis, and stores its units in Postgres in batches.
    assert!(asked("flash", "commands") >= 1.0 && asked("flash", "statements") > 0.0);
}

/// With few units the buyers of one process may sell them all before those of another begin.
#[tokio::test]
async fn without_a_lock_sales_are_lost_and_units_sold_twice() {
    let rows = rows(&["--units", "1000", "--seconds", "20", "--workers", "8", "--only", "no-lock"]).await;
    assert!(count(&rows[0], "lost") > 0 && count(&rows[0], "oversold") > 0, "{rows:?}");
}

#[tokio::test]
async fn holders_stopped_beyond_their_lease_lose_updates_and_none_inside_a_fenced_transaction() {
    let stopped = ["--units", "100000", "--seconds", "3", "--workers", "8", "--only"];
    let rows = rows(&[&stopped[..], &["stopped-set-nx-px,stopped-unfenced,stopped"]].concat()).await;
    let lost: Vec<_> = rows.iter().map(|row| count(row, "lost")).collect();
    assert!(lost[0] > 0 && lost[1] > 0 && lost[2] == 0, "{rows:?}");
    assert!(count(&rows[2], "refused") > 0 && count(&rows[2], "sold") > 0, "{}", rows[2]);
}

/// A lease is 500 ms.
#[tokio::test]
async fn a_buyer_may_think_for_longer_than_a_lease() {
    let think = ["--units", "100", "--seconds", "2", "--workers", "2", "--think", "600ms", "--only"];
    for row in rows(&[&think[..], &["stockade,for-update"]].concat()).await {
        assert!(count(&row, "sold") > 0 && count(&row, "lost") == 0, "{row}");
    }
}

#[tokio::test]
async fn holders_that_were_sold_out_before_a_stop_show_nothing() {
    for few in [["--units", "4", "--workers", "4"], ["--units", "100000", "--workers", "1"]] {
        let (good, table, err) = lab(&[&few[..], &["--seconds", "1", "--only", "stopped-unfenced"]].concat()).await;
        assert!(good && table.contains("no holder was stopped, so this shows nothing"), "{table}{err}");
    }
}

#[tokio::test]
async fn the_table_and_the_chart_name_each_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("lab.svg");
    let only =
        ["--units", "5", "--workers", "3", "--only", "decrby,conditional-update", "--svg", svg.to_str().unwrap()];
    let (good, table, err) = lab(&only).await;
    assert!(good, "{err}");
    let chart = std::fs::read_to_string(svg).unwrap();
    for title in ["DECRBY in Redis", "conditional UPDATE"] {
        assert!(table.contains(title) && chart.contains(title), "{table}\n{chart}");
    }
}

#[tokio::test]
async fn what_the_lab_cannot_do_is_refused_before_anything_starts() {
    for bad in [["--workers", "0"], ["--units", "0"], ["--seconds", "601"], ["--think", "2s"], ["--only", "hope"]] {
        let (good, _, err) = lab(&bad).await;
        assert!(!good && err.contains(bad[0]), "{bad:?}: {err}");
    }
}
