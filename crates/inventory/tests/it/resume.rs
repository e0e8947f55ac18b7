//! `inventory replay` with a state file and an audit, as users run it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{ADMIN_TOKEN, Answer, Instance, Stage, bare_command, outcome};

/// A new folder with an order file: two SKUs, three lines each.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let lines = (1..=6).map(|number| format!("{number},{},x,{number}\n", ["A", "B"][number % 2]));
    let text = format!("InvoiceNo,StockCode,Description,Quantity\n{}", lines.collect::<String>());
    std::fs::write(folder.join("orders.csv"), text).unwrap();
    folder
}

/// Runs a replay. Returns whether it succeeded, and its whole output.
async fn replay(instance: &Instance, folder: &Path, options: &[&str]) -> (bool, String) {
    let mut command = bare_command("replay");
    command.args(["--target", &instance.url, "--browse", "0", "--csv"]);
    command.arg(folder.join("orders.csv")).arg("--state").arg(folder.join("state")).args(options);
    let (status, output) = outcome(command).await;
    (status.success(), output)
}

#[tokio::test]
async fn a_replay_says_what_it_could_not_read_and_that_its_spans_were_not_sent() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 100).await;
    let folder = folder("unsaid");
    std::fs::write(folder.join("orders.csv"), "InvoiceNo,StockCode,Quantity\n1,A,1\n2,A,1.5\n").unwrap();
    let mut command = bare_command("replay");
    command.args(["--target", &instance.url, "--csv"]).arg(folder.join("orders.csv"));
    // Nobody listens there.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let (status, output) = outcome(command).await;
    assert_eq!(status.code(), Some(1), "{output}");
    for said in ["applied 1", "skipped 1: bad quantity", "the last spans were not sent"] {
        assert!(output.contains(said), "{said}: {output}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_replay_goes_on_where_it_was_killed_and_applies_nothing_twice() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in ["A", "B"] {
        assert_eq!(instance.put(sku, 100).await.status, 201);
    }
    let folder = folder("resume");
    let adjustments = async || stage.count("select count(*) from movement where kind = 'adjustment'").await;
    let audit = ["--admin", &instance.ops, "--admin-token", ADMIN_TOKEN];

    let begun = Instant::now();
    let (ended, output) = replay(&instance, &folder, &["--limit", "4", "--rate", "20"]).await;
    assert!(ended && adjustments().await == 4, "{output}");
    assert!(begun.elapsed() >= Duration::from_millis(150), "the fourth line is due after three twentieths of a second");
    let state = std::fs::read_to_string(folder.join("state")).unwrap();
    // As if the replay had been killed while it wrote the fourth line's result to the file.
    let (before, _) = state.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(folder.join("state"), format!("{before}\n4#4\tA\t4\tappl")).unwrap();

    let (ended, output) = replay(&instance, &folder, &audit).await;
    assert!(ended && output.contains("6 order lines, 3 of them settled before"), "{output}");
    assert!(output.contains("audit: ok (2 SKUs, 8 movements, 2 of them new)"), "{output}");
    assert_eq!(adjustments().await, 6);
    let (ended, output) = replay(&instance, &folder, &[]).await;
    assert!(ended && output.contains("6 of them settled before") && output.contains("applied 0"), "{output}");
    assert_eq!(adjustments().await, 6);

    // A unit that no movement explains.
    sqlx::query("update stock set quantity = quantity + 1 where sku = 'A'").execute(&stage.pool).await.unwrap();
    let (ended, output) = replay(&instance, &folder, &audit).await;
    assert!(!ended && output.contains("VIOLATED") && output.contains("A: quantity"), "{output}");
    let shown = Answer::to(instance.admin(Method::GET, "/admin/conservation")).await.json();
    assert_eq!((&shown["holds"], &shown["violations"][0]["count"]), (&json!(false), &json!(1)), "{shown}");

    for (options, said) in [
        (&["--run", "another"][..], "belongs to the run"),
        (&["--admin", &instance.ops, "--admin-token", "wrong"], "ADMIN_TOKEN"),
        (&["--admin", &instance.url, "--admin-token", ADMIN_TOKEN], "404"),
        (&["--admin", &instance.ops], "--admin-token"),
        (&["--rate", "0"], "from 0.001 to 1000000"),
        (&["--rate", "1e-300"], "from 0.001 to 1000000"),
        (&["--give-up-after", "500000000000years"], "7days"),
        (&["--ops", "ftp://127.0.0.1"], "http://"),
        (&["--target", "https://127.0.0.1"], "no TLS"),
    ] {
        let (ended, output) = replay(&instance, &folder, options).await;
        assert!(!ended && output.contains(said), "{options:?}: {output}");
    }
    let state = std::fs::File::open(folder.join("state")).unwrap();
    state.lock().unwrap();
    let (ended, output) = replay(&instance, &folder, &[]).await;
    assert!(!ended && output.contains("another replay uses the state file"), "{output}");
    drop(state);
    let orders = std::fs::read_to_string(folder.join("orders.csv")).unwrap();
    for (line, changed) in [
        // Each line has another number, and another idempotency key.
        ("1,B,x,1", "0,A,x,1\n1,B,x,1"),
        ("1,B,x,1", "1,A,x,1"),
        ("1,B,x,1", "1,B,x,2"),
    ] {
        std::fs::write(folder.join("orders.csv"), orders.replacen(line, changed, 1)).unwrap();
        let (ended, output) = replay(&instance, &folder, &[]).await;
        assert!(!ended && output.contains("no line of the orders"), "{changed}: {output}");
    }
    std::fs::write(folder.join("orders.csv"), &orders).unwrap();
    std::fs::copy(folder.join("orders.csv"), folder.join("state")).unwrap();
    let (ended, output) = replay(&instance, &folder, &[]).await;
    assert!(!ended && output.contains("line 1 of") && output.contains("name another state file"), "{output}");
    assert_eq!(adjustments().await, 6);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn completions_and_manual_pages_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = bare_command("completions");
        let (status, script) = outcome({
            command.arg(shell);
            command
        })
        .await;
        assert!(status.success() && script.contains("replay") && script.contains("admin-token"), "{shell}: {script}");
    }
    let mut unknown = bare_command("completions");
    unknown.arg("cmd");
    let (status, output) = outcome(unknown).await;
    assert!(!status.success() && output.contains("possible values"), "{output}");

    let folder = folder("man");
    let mut command = bare_command("man");
    command.arg(&folder);
    assert!(outcome(command).await.0.success());
    for page in ["inventory.1", "inventory-serve.1", "inventory-replay.1", "inventory-health.1"] {
        assert!(std::fs::read_to_string(folder.join(page)).unwrap().contains(".TH"), "{page}");
    }
    let mut nowhere = bare_command("man");
    nowhere.arg(folder.join("nowhere"));
    let (status, output) = outcome(nowhere).await;
    assert!(!status.success() && output.contains("does the folder exist?"), "{output}");
    std::fs::remove_dir_all(folder).unwrap();
}
