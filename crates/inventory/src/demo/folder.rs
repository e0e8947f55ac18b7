use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::process::geteuid;
use tempfile::TempDir;

const PREFIX: &str = "inventory-demo-";

/// A file that the owner of the folder keeps locked. The system ends the lock with its owner, `kill -9` included.
const OWNER: &str = "owner";

/// The folder for the logs of a demonstration. If its process is killed, the next demonstration removes it.
pub(super) struct Folder {
    folder: TempDir,
    _owner: Option<File>,
}

impl Folder {
    /// Makes a folder. One that is to be kept has no owner, so nobody removes it.
    pub(super) fn make(keep: bool) -> io::Result<Self> {
        Self::make_in(&env::temp_dir(), keep)
    }

    fn make_in(parent: &Path, keep: bool) -> io::Result<Self> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).disable_cleanup(keep).tempdir_in(parent)?;
        let owner = if keep { None } else { Some(own(folder.path())?) };
        Ok(Self { folder, _owner: owner })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks the file before it has its name, so that nobody finds it without its lock.
fn own(folder: &Path) -> io::Result<File> {
    let new = folder.join("new");
    let owner = File::create_new(&new)?;
    owner.lock()?;
    fs::rename(new, folder.join(OWNER))?;
    Ok(owner)
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_of_a_run = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            // Not that of the target of a link.
            && entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == geteuid().as_raw());
        if is_of_a_run && File::open(entry.path().join(OWNER)).is_ok_and(|owner| owner.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_run_that_was_killed_is_removed_by_the_next_and_no_other_is() {
        let parent = tempfile::tempdir().unwrap();
        let make = |keep| Folder::make_in(parent.path(), keep).unwrap();
        let (running, kept, mut killed) = (make(false), make(true), make(false));
        let strange = parent.path().join("inventory-demo-strange");
        fs::create_dir(&strange).unwrap();
        killed.folder.disable_cleanup(true);
        let (kept, killed) = [kept, killed].map(|folder| folder.path().to_owned()).into();
        drop(make(false));
        assert!(!killed.exists());
        assert!(running.path().exists() && kept.exists() && strange.exists());
    }
}
