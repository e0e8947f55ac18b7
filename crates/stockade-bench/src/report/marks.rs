use std::{fs, path::Path};

use crate::contender::Failure;

/// The text of a run stands between these two lines of a page; the rest of the page is written by hand.
pub(super) const BEGIN: &str = "<!-- written by `make bench` -->\n";
pub(super) const END: &str = "<!-- end of what `make bench` writes -->\n";

/// Puts a text between the marks of a page.
pub(super) fn fill(page: &Path, text: &str) -> Result<(), Failure> {
    let whole = fs::read_to_string(page)?;
    let [before, _, after] =
        parts(&whole).ok_or_else(|| format!("{}: {BEGIN:?} or {END:?} is missing", page.display()))?;
    Ok(fs::write(page, format!("{before}{BEGIN}\n{}\n\n{END}{after}", text.trim_end()))?)
}

/// The text before, between and behind the marks.
fn parts(page: &str) -> Option<[&str; 3]> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (between, after) = rest.split_once(END)?;
    Some([before, between, after])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_project_has_marks_and_tables_between_them() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        let page = fs::read_to_string(page).unwrap();
        let [_, between, _] = parts(&page).unwrap();
        assert!(between.lines().any(|line| line.starts_with("| stockade")), "nothing is measured");
    }

    #[test]
    fn what_was_written_by_hand_stays() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, format!("by hand\n{BEGIN}old\n{END}by hand, too\n")).unwrap();
        fill(&page, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), format!("by hand\n{BEGIN}\nnew\n\n{END}by hand, too\n"));
        fs::write(&page, "no marks").unwrap();
        assert!(fill(&page, "new").is_err());
    }
}
