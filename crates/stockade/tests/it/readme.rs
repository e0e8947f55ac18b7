//! The documents against the code: snippets, features, tests, patches, and links between documents.

use std::{collections::BTreeSet, fs, path::Path};

/// A file of the project.
fn text(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The code blocks of a page that begin with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let fence = format!("```{fence}\n");
    page.split(&fence).skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

#[test]
fn the_project_page_shows_the_snippets_of_the_guide_which_are_compiled() {
    let shown = blocks(&text("README.md"), "rust");
    let compiled = blocks(&text("crates/stockade/src/guide.md"), "rust,no_run");
    assert_eq!([shown.len(), compiled.len()], [3, 3]);
    // Each block continues the one before it: the guide repeats the blocks above as hidden lines, and compiles them.
    for (above, block) in compiled.iter().enumerate() {
        let whole: String = block
            .lines()
            .map(|line| {
                line.strip_prefix('#')
                    .filter(|rest| !rest.starts_with('['))
                    .map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest))
                    .to_owned()
                    + "\n"
            })
            .collect();
        assert_eq!(whole, shown[..=above].concat());
        assert!(block.ends_with(&shown[above]));
    }
}

/// What a text has in backticks, and whether "(default)" follows.
fn listed_features(text: &str) -> BTreeSet<(&str, bool)> {
    let parts: Vec<_> = text.split('`').skip(1).collect();
    parts.chunks(2).map(|part| (part[0], part[1].starts_with(" (default)"))).collect()
}

#[test]
fn the_project_page_and_the_guide_list_every_feature_and_say_which_are_on_by_default() {
    let manifest = text("crates/stockade/Cargo.toml");
    let features = manifest.split("[features]").nth(1).unwrap().split("\n[").next().unwrap();
    let of = |name: &str| features.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
    let default = of("default").unwrap();
    let real = features.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| *name != "default");
    let real: BTreeSet<_> = real.map(|name| (name, default.contains(&format!("\"{name}\"")))).collect();

    let (page, guide) = (text("README.md"), text("crates/stockade/src/guide.md"));
    let paragraph = page.split("\nFeatures: ").nth(1).unwrap().split(". ").next().unwrap();
    assert_eq!(listed_features(paragraph), real);
    let table = guide.split("\n# Features\n").nth(1).unwrap().split("\n# ").next().unwrap();
    let names: String = table.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").next()).collect();
    assert_eq!(listed_features(&names), real);
}

#[test]
fn the_guide_names_the_versions_of_the_crates_in_the_interface() {
    let (guide, manifest) = (text("crates/stockade/src/guide.md"), text("Cargo.toml"));
    let table = guide.split("\n# Versions of other crates\n").nth(1).unwrap();
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    let named: Vec<_> = rows.filter_map(|(name, rest)| Some((name, rest.split_once(" | ")?.0))).collect();
    assert_eq!(named.len(), 10, "{named:?}");
    for (name, version) in named {
        let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).unwrap();
        let required = line.split('"').nth(1).unwrap();
        assert!(format!("{required}.").starts_with(&format!("{version}.")), "{name}: {version}, {required}");
    }
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
fn every_value_of_a_label_that_the_metrics_list_is_in_the_code() {
    let page = text("crates/stockade/src/metrics.rs");
    let code = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! | ")?.rsplit(" | ").next());
    let values: BTreeSet<_> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(values.len() > 40, "{values:?}");
    let missing: Vec<_> = values.iter().filter(|value| !code.contains(&format!("\"{value}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The tests that a text names. Metrics have long names, too.
fn named_tests(text: &str) -> Vec<&str> {
    let is_test = |word: &&str| word.matches('_').count() > 2 && !word.starts_with("stockade_");
    text.split('`').skip(1).step_by(2).filter(is_test).collect()
}

#[test]
fn every_test_that_a_table_of_races_or_guarantees_names_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = sources(&crates.join("stockade")) + &sources(&crates.join("inventory"));
    for page in ["docs/locks/races.md", "docs/cache/races.md", "docs/guarantees.md"] {
        let page = text(page);
        let named = named_tests(&page);
        assert!(named.len() > 40, "{named:?}");
        let missing: Vec<_> = named.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn every_guarantee_names_a_test() {
    let page = text("docs/guarantees.md");
    let promises: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 5).collect();
    assert!(promises.len() > 20, "{}", promises.len());
    for row in promises.into_iter().filter(|row| !row.starts_with("| promise |")) {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(!named_tests(shown_by).is_empty(), "{row}");
    }
}

#[test]
fn every_type_of_the_glossary_exists() {
    let page = text("ARCHITECTURE.md");
    let glossary = page.split("\n## Glossary\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let is_declared = |name: &str| {
        let declared = |word: &str| sources.contains(&format!("{word} {name}"));
        ["struct", "enum", "trait"].into_iter().any(declared)
    };
    let terms: Vec<_> = glossary.lines().filter(|row| row.ends_with("` |")).collect();
    assert!(terms.len() > 20, "{}", terms.len());
    for row in terms {
        for named in row.trim_end_matches(" |").rsplit(" | ").next().unwrap().split(", ") {
            let name = named.trim_matches('`').rsplit("::").next().unwrap();
            assert!(is_declared(name), "{row}");
        }
    }
}

/// The documents that are read on the project's page.
const DOCUMENTS: [&str; 16] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "crates/inventory/README.md",
    "crates/stockade/README.md",
    "docs/benchmarks.md",
    "docs/cache.md",
    "docs/cache/races.md",
    "docs/choices.md",
    "docs/guarantees.md",
    "docs/lab.md",
    "docs/locks.md",
    "docs/locks/races.md",
    "docs/runbook.md",
    "loadtest/README.md",
];

/// The anchors that a page offers, as GitHub makes them of its headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |heading: &str| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
    page.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches(['#', ' ']))).collect()
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let mut links = 0;
    for document in DOCUMENTS {
        let page = text(document);
        let folder = Path::new(document).parent().unwrap();
        for link in page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.into() } else { folder.join(path) };
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&target);
            assert!(there.exists(), "{document}: {link}");
            if !anchor.is_empty() {
                assert!(anchors(&fs::read_to_string(there).unwrap()).contains(anchor), "{document}: {link}");
            }
            links += 1;
        }
    }
    assert!(links > 60, "{links} links: are the pages read?");
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
