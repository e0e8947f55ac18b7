//! The places of the servers' programs.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// Folders that are often missing from `PATH`.
const USUAL: [&str; 5] = ["/usr/local/bin", "/opt/homebrew/bin", "/usr/local/sbin", "/usr/sbin", "/opt/local/bin"];

/// Folders with one folder per PostgreSQL version: Debian and Ubuntu, Red Hat, Alpine, Homebrew (on both
/// kinds of processor).
const POSTGRES_PARENTS: [&str; 5] =
    ["/usr/lib/postgresql", "/usr", "/usr/libexec", "/opt/homebrew/opt", "/usr/local/opt"];

/// `redis-server`.
pub(crate) fn redis_server() -> Result<PathBuf> {
    const LOOKED: &str = "REDIS_SERVER, PATH and the usual folders";
    let not_found = |looked: String| Error::NotFound { program: "redis-server", variable: "REDIS_SERVER", looked };
    if let Some(named) = env::var_os("REDIS_SERVER").filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_file() { Ok(named) } else { Err(not_found(format!("REDIS_SERVER={}", named.display()))) };
    }
    on_path("redis-server").ok_or_else(|| not_found(LOOKED.into()))
}

/// The folder of PostgreSQL's programs, `initdb` and `postgres` among them.
pub(crate) fn postgres_folder() -> Result<PathBuf> {
    const LOOKED: &str = "PG_BIN, PATH, /usr/lib/postgresql/*/bin and the usual folders";
    let not_found = |looked: String| Error::NotFound { program: "postgres", variable: "PG_BIN", looked };
    if let Some(named) = env::var_os("PG_BIN").filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        return if has_postgres(&named) { Ok(named) } else { Err(not_found(format!("PG_BIN={}", named.display()))) };
    }
    let beside = on_path("postgres").and_then(|found| found.canonicalize().ok());
    beside
        .and_then(|found| found.parent().map(Path::to_path_buf))
        .filter(|folder| has_postgres(folder))
        .or_else(newest_postgres)
        .ok_or_else(|| not_found(LOOKED.into()))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(USUAL.into_iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn newest_postgres() -> Option<PathBuf> {
    let versions = POSTGRES_PARENTS.iter().filter_map(|parent| Path::new(parent).read_dir().ok()).flatten().flatten();
    versions
        .map(|entry| entry.path())
        .filter_map(|folder| Some((version(folder.file_name()?.to_str()?)?, folder)))
        // Alpine has the programs in the version's folder itself.
        .flat_map(|(version, folder)| [(version, folder.join("bin")), (version, folder)])
        .filter(|(_, folder)| has_postgres(folder))
        .max()
        .map(|(_, folder)| folder)
}

/// The version in a folder's name: `15`, `postgresql16`, `pgsql-17`, `postgresql@14`. No digits: the only one there is.
fn version(folder: &str) -> Option<u32> {
    let digits = folder.strip_prefix("postgresql").or_else(|| folder.strip_prefix("pgsql")).unwrap_or(folder);
    let digits = digits.trim_start_matches(['-', '@']);
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

fn has_postgres(folder: &Path) -> bool {
    folder.join("postgres").is_file() && folder.join("initdb").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_from_a_folder_of_any_distribution() {
        assert_eq!(version("15"), Some(15));
        assert_eq!(version("postgresql16"), Some(16));
        assert_eq!(version("postgresql@14"), Some(14));
        assert_eq!(version("pgsql-17"), Some(17));
        assert_eq!(version("postgresql"), Some(0));
        assert_eq!(version("share"), None);
    }

    #[test]
    fn the_newest_version_is_a_number_and_not_a_text() {
        assert!(version("15") > version("9"));
    }
}
