use std::{fs, path::Path};

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

/// All Rust sources under a folder.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn every_test_that_the_tables_of_races_name_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = sources(&crates.join("stockade"));
    for page in ["locks", "cache"] {
        let page = fs::read_to_string(crates.join(format!("../docs/{page}/races.md"))).unwrap();
        // Metrics have long names, too.
        let is_test = |word: &&str| word.matches('_').count() > 2 && !word.starts_with("stockade_");
        let named: Vec<_> = page.split('`').skip(1).step_by(2).filter(is_test).collect();
        assert!(named.len() > 50, "{named:?}");
        let missing: Vec<_> = named.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn every_patch_that_the_table_of_races_names_breaks_a_test_of_its_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/cache/races.md")).unwrap();
    let mut patches = 0;
    for row in page.lines() {
        let empty = row.starts_with('|') && row.trim_matches('|').split('|').any(|cell| cell.trim().is_empty());
        assert!(!empty, "a cell says nothing: {row}");
        for linked in row.split("(../../mutants/").skip(1) {
            let name = linked.split(')').next().unwrap();
            let patch = fs::read_to_string(root.join("mutants").join(name)).unwrap_or_else(|_| panic!("no {name}"));
            let test = patch.lines().find_map(|line| line.strip_prefix("test: ")).unwrap();
            let test = test.rsplit("::").next().unwrap();
            assert!(row.contains(&format!("`{test}`")), "{name} breaks {test}, which its row does not name");
            patches += 1;
        }
    }
    assert!(patches > 40, "{patches} patches: is the table read?");
}
