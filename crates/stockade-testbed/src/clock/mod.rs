//! A wall clock of its own for one server.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use tokio::process::Command;

use crate::{Error, Result};

const SHIM: &str = include_str!("clock_shim.c");

/// The offset of a server's clock from the machine's, in a file that the server has mapped.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
    offset_ms: Mutex<i64>,
}

impl Clock {
    /// Builds the library that has to be preloaded.
    pub(crate) async fn build(folder: &Path) -> Result<Self> {
        let source = folder.join("clock_shim.c");
        let file = folder.join("clock_offset");
        let doing = || Error::io("prepare the clock of a server");
        fs::write(&source, SHIM).map_err(doing())?;
        fs::write(&file, 0_i64.to_ne_bytes()).map_err(doing())?;
        let clock = Self { library: folder.join("clock_shim.so"), file, offset_ms: Mutex::new(0) };

        let compiler = std::env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".into());
        let no_compiler = |why: String| Error::NoCompiler { compiler: compiler.to_string_lossy().into_owned(), why };
        let mut command = Command::new(&compiler);
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&clock.library).arg(&source).kill_on_drop(true);
        let output = command.output().await.map_err(|error| no_compiler(error.to_string()))?;
        if !output.status.success() {
            return Err(no_compiler(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(clock)
    }

    /// The environment in which a server has this clock.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("LD_PRELOAD", self.library.clone().into()), ("CLK_FILE", self.file.clone().into())]
    }

    pub(crate) fn step(&self, by: Duration, is_forwards: bool) -> Result<()> {
        let doing = || Error::io("step the clock of a server");
        let far = || doing()(io::Error::from(io::ErrorKind::InvalidInput));
        let by = i64::try_from(by.as_millis()).map_err(|_| far())?;
        let mut offset = self.offset_ms.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let stepped = offset.checked_add(if is_forwards { by } else { -by }).ok_or_else(far)?;
        // In place: the server has mapped this very file.
        let file = File::options().write(true).open(&self.file).map_err(doing())?;
        file.write_all_at(&stepped.to_ne_bytes(), 0).map_err(doing())?;
        *offset = stepped;
        Ok(())
    }
}
