use std::process::Command;

#[test]
fn a_name_that_no_group_has_is_refused_with_the_names_that_there_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_stockade-bench")).arg("lcoks").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("`lcoks`") && said.contains("locks, cache"), "{said}");
}
