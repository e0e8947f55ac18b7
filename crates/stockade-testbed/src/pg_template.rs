//! An initialized PostgreSQL cluster to copy from, since `initdb` takes longer than everything else.

use std::{
    env, fs, io,
    io::Write,
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rand::distr::{Alphanumeric, SampleString};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::{Error, Result, account::Account, folder};

/// The superuser of every private cluster.
pub(crate) const USER: &str = "stockade";

/// Changes when the arguments of `initdb` do, so that clusters made by earlier ones are not used.
const LAYOUT: u32 = 1;

/// Makes a private folder with a new cluster in its subfolder `data`, and returns it with the password of [`USER`].
///
/// Below a Cargo target folder the cluster is copied from a template that was made there earlier, password included.
/// Only the same user can read the template, and `cargo clean` removes it. Elsewhere every cluster is made by `initdb`.
///
/// Nothing of it stops halfway: when the future is dropped, the work goes on to its end and then removes the folder. A
/// folder removed earlier would be filled again.
pub(crate) async fn instantiate(bin: &Path, account: Option<Account>) -> Result<(TempDir, String)> {
    let bin = bin.to_owned();
    let work = move || {
        let folder = folder::private(account)?;
        let password = fill(&bin, &folder.path().join("data"), account)?;
        Ok((folder, password))
    };
    spawn_blocking(work).await.map_err(io::Error::other).map_err(doing())?
}

fn doing() -> impl FnOnce(io::Error) -> Error {
    Error::io("prepare a private cluster")
}

/// Puts a new cluster at `target`, which does not exist yet.
fn fill(bin: &Path, target: &Path, account: Option<Account>) -> Result<String> {
    let password = match cached(bin, target, account) {
        Ok(Some(password)) => password,
        // A template that can't be made or read, as one that another user made, costs time and nothing else.
        Ok(None) | Err(Error::Io { .. }) => {
            let _ = fs::remove_dir_all(target);
            initialize(bin, target, account)?
        }
        Err(error) => return Err(error),
    };
    if let Some(account) = account {
        account.own(target).map_err(doing())?;
    }
    Ok(password)
}

fn cached(bin: &Path, target: &Path, account: Option<Account>) -> Result<Option<String>> {
    let Some(template) = cache(bin)? else { return Ok(None) };
    if !template.is_dir() {
        create(bin, &template, account)?;
    }
    folder::copy(&template.join("data"), target).map_err(doing())?;
    fs::read_to_string(template.join("password")).map(Some).map_err(doing())
}

/// Makes the template in another folder and moves it to its place, so that a template is complete or absent.
fn create(bin: &Path, template: &Path, account: Option<Account>) -> Result<()> {
    let workshop = folder::private(account)?;
    let data = workshop.path().join("data");
    let password = initialize(bin, &data, account)?;
    let place = || {
        let parent = template.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(parent)?;
        let beside = tempfile::tempdir_in(parent)?;
        write_secret(&beside.path().join("password"), &password)?;
        folder::copy(&data, &beside.path().join("data"))?;
        match fs::rename(beside.path(), template) {
            // Another process was quicker.
            Err(_) if template.is_dir() => Ok(()),
            moved => moved,
        }
    };
    place().map_err(doing())
}

fn initialize(bin: &Path, target: &Path, account: Option<Account>) -> Result<String> {
    let password = Alphanumeric.sample_string(&mut rand::rng(), 32);
    let file = target.with_extension("password");
    let doing = || Error::io("write the password file of a private cluster");
    write_secret(&file, &password).map_err(doing())?;
    if let Some(account) = account {
        account.own(&file).map_err(doing())?;
    }

    let program = bin.join("initdb");
    let mut initdb = Command::new(&program);
    initdb.arg("--pgdata").arg(target).arg("--pwfile").arg(&file).args(["--username", USER, "--auth=password"]);
    initdb.args(["--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions", "--wal-segsize=1"]);
    initdb.env("LC_ALL", "C").env_remove("PGDATA").current_dir(target.parent().unwrap_or(target));
    if let Some(account) = account {
        initdb.uid(account.uid).gid(account.gid);
    }
    let command = format!("{} --pgdata {}", program.display(), target.display());
    let Output { status, stdout, stderr } = initdb.output().map_err(Error::io(format!("start `{command}`")))?;
    let _ = fs::remove_file(&file);
    if !status.success() {
        let log = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        return Err(Error::Died { command, status: status.to_string(), log });
    }
    Ok(password)
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// The folder of the template of this PostgreSQL, in the Cargo target folder that this program was built in.
fn cache(bin: &Path) -> Result<Option<PathBuf>> {
    let Some(target) = target_folder() else { return Ok(None) };
    let output = Command::new(bin.join("postgres")).arg("--version").output();
    let output = output.map_err(Error::io(format!("ask {} for its version", bin.display())))?;
    let version: String = String::from_utf8_lossy(&output.stdout)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
        .collect();
    Ok(Some(target.join("stockade-testbed").join(format!("{}-{LAYOUT}", version.trim_end_matches('_')))))
}

/// Cargo marks its target folders with this file. A folder that others may write to is not trusted with a cluster.
fn target_folder() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.ancestors().skip(1).take(5).find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
    let mode = fs::metadata(folder).ok()?.permissions().mode();
    (mode & 0o002 == 0).then(|| folder.to_owned())
}
