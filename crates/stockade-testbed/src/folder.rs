//! Private folders for servers.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{Error, Result, account::Account};

/// A folder that only the server's user can enter, removed when dropped.
///
/// For another user than ours the folder must lie below folders that everyone may enter, as `TMPDIR` does not always.
pub(crate) fn private(account: Option<Account>) -> Result<TempDir> {
    let doing = || Error::io("make a private folder for a server");
    let parent = match account {
        None => std::env::temp_dir(),
        Some(_) => passable()
            .ok_or_else(|| io::Error::other("no temporary folder can be entered by other users"))
            .map_err(doing())?,
    };
    let folder = tempfile::Builder::new().prefix("stockade-testbed-").tempdir_in(parent).map_err(doing())?;
    if let Some(account) = account {
        account.own(folder.path()).map_err(doing())?;
    }
    Ok(folder)
}

fn passable() -> Option<PathBuf> {
    [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()].into_iter().find(|folder| everyone_may_enter(folder))
}

fn everyone_may_enter(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|part| fs::metadata(part).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
}

/// Copies a folder with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
