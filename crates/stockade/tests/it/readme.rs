use std::fs;

/// The first Rust block of a page.
fn quick_start(path: &str) -> String {
    let page = fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (_, block) = page.split_once("```rust\n").unwrap_or_else(|| panic!("{path} has no Rust block"));
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_project_page_shows_the_quick_start_that_is_compiled() {
    assert_eq!(quick_start("../../README.md"), quick_start("README.md"));
}
