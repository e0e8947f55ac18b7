//! The user that PostgreSQL runs as, since it refuses root.

use std::{fs, io, os::unix::fs::chown, path::Path};

use crate::{Error, Result};

/// A user and group to change to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// `None` unless this process is root: anyone else runs PostgreSQL as themselves.
    pub(crate) fn unprivileged() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(Error::io("read /etc/passwd"))?;
        Self::find(&users, "postgres").or_else(|| Self::find(&users, "nobody")).map(Some).ok_or(Error::NoAccount)
    }

    fn find(users: &str, name: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != name {
                return None;
            }
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            Some(Self { uid, gid })
        })
    }

    /// Gives the folder and everything in it to this user.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                self.own(&entry?.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_user_by_its_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:,,,:/:/bin/bash\n";
        assert_eq!(Account::find(users, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(Account::find(users, "nobody"), None);
    }
}
