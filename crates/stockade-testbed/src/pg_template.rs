//! An initialized PostgreSQL cluster to copy from, since `initdb` takes longer than everything else.

use std::{
    env, fs, io,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Output,
};

use rand::distr::{Alphanumeric, SampleString};
use tokio::process::Command;

use crate::{Error, Result, account::Account, folder};

/// The superuser of every private cluster.
pub(crate) const USER: &str = "stockade";

/// Changes when the arguments of `initdb` do, so that clusters made by earlier ones are not used.
const LAYOUT: u32 = 1;

/// Puts a new cluster at `target`, which does not exist yet, and returns the password of [`USER`].
///
/// Below a Cargo target folder the cluster is copied from a template that was made there earlier, password included.
/// Only the same user can read the template, and `cargo clean` removes it. Elsewhere every cluster is made by `initdb`.
pub(crate) async fn instantiate(bin: &Path, target: &Path, account: Option<Account>) -> Result<String> {
    let password = match cached(bin, target, account).await {
        Ok(Some(password)) => password,
        // A template that can't be made or read, as one that another user made, costs time and nothing else.
        Ok(None) | Err(Error::Io { .. }) => {
            let _ = fs::remove_dir_all(target);
            initialize(bin, target, account).await?
        }
        Err(error) => return Err(error),
    };
    if let Some(account) = account {
        let target = target.to_owned();
        blocking(move || account.own(&target)).await?;
    }
    Ok(password)
}

async fn cached(bin: &Path, target: &Path, account: Option<Account>) -> Result<Option<String>> {
    let Some(template) = cache(bin).await? else { return Ok(None) };
    if !template.is_dir() {
        create(bin, &template, account).await?;
    }
    let target = target.to_owned();
    let copied = blocking(move || {
        folder::copy(&template.join("data"), &target)?;
        fs::read_to_string(template.join("password"))
    });
    copied.await.map(Some)
}

/// Makes the template in another folder and moves it to its place, so that a template is complete or absent.
async fn create(bin: &Path, template: &Path, account: Option<Account>) -> Result<()> {
    let workshop = folder::private(account)?;
    let data = workshop.path().join("data");
    let password = initialize(bin, &data, account).await?;
    let template = template.to_owned();
    blocking(move || {
        let parent = template.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(parent)?;
        let beside = tempfile::tempdir_in(parent)?;
        write_secret(&beside.path().join("password"), &password)?;
        folder::copy(&data, &beside.path().join("data"))?;
        match fs::rename(beside.path(), &template) {
            // Another process was quicker.
            Err(_) if template.is_dir() => Ok(()),
            moved => moved,
        }
    })
    .await
}

async fn initialize(bin: &Path, target: &Path, account: Option<Account>) -> Result<String> {
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
    initdb.env("LC_ALL", "C").env_remove("PGDATA").kill_on_drop(true);
    initdb.current_dir(target.parent().unwrap_or(target));
    if let Some(account) = account {
        initdb.uid(account.uid).gid(account.gid);
    }
    let command = format!("{} --pgdata {}", program.display(), target.display());
    let Output { status, stdout, stderr } = initdb.output().await.map_err(Error::io(format!("start `{command}`")))?;
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
async fn cache(bin: &Path) -> Result<Option<PathBuf>> {
    let Some(target) = target_folder() else { return Ok(None) };
    let output = Command::new(bin.join("postgres")).arg("--version").output().await;
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

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    done.and_then(|result| result).map_err(Error::io("prepare a private cluster"))
}
