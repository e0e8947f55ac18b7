use std::{
    collections::HashSet,
    fs::{self, TryLockError},
    io,
    path::{Path, PathBuf},
};

use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Mutex,
};

use super::Verdict;
use crate::orders::OrderLine;

const TITLE: &str = "inventory replay";

/// The file that lets a replay go on where an earlier one ended: the name of the run, and the lines whose outcome is
/// final, with SKU and units. A line under way at a crash is not among them: it is sent again with the key that it had.
///
/// The file is locked while the journal is open, and the system ends the lock with the process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    run: String,
    settled: HashSet<String>,
    file: Mutex<File>,
}

/// Why a journal can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file can't be read or written.
    #[error("can't read or write the state file {0}")]
    File(PathBuf, #[source] io::Error),
    /// Another replay has the file open.
    #[error("another replay uses the state file {0}: wait for its end, or name another one")]
    InUse(PathBuf),
    /// The file is something else.
    #[error("line {line} of {path} was not written by `inventory replay`: name another state file")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// The file belongs to another run.
    #[error("{path} belongs to the run {run}: leave --run out, or name another state file")]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// Its run.
        run: String,
    },
    /// The file belongs to other order lines.
    #[error(
        "{path} has settled {line}, which is no line of the orders: they were changed since, so nobody can tell which of \
         them are settled; give the orders as they were, or name another state file to apply all of them"
    )]
    OtherOrders {
        /// The file.
        path: PathBuf,
        /// A line that it has settled: reference, SKU, units.
        line: String,
    },
}

impl Journal {
    /// Opens the file, or begins it with the run that `new` names.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. `wanted` is the name of the run, if somebody gave one. The run of an earlier file must have
    /// the same name.
    pub async fn open(path: &Path, wanted: Option<&str>, new: impl FnOnce() -> String) -> Result<Self, JournalError> {
        let failed = |error| JournalError::File(path.to_owned(), error);
        let file = fs::OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let (mut file, mut bytes) = (File::from_std(file), Vec::new());
        file.read_to_end(&mut bytes).await.map_err(failed)?;
        // A process that was killed may have left half a line at the end, and half a character.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        let (run, settled) = match Self::parse(&text) {
            Ok(Some(read)) => read,
            Ok(None) if bytes.len() == whole => (wanted.map_or_else(new, str::to_owned), HashSet::new()),
            Ok(None) => return Err(JournalError::Foreign { path: path.to_owned(), line: 1 }),
            Err(line) => return Err(JournalError::Foreign { path: path.to_owned(), line }),
        };
        if wanted.is_some_and(|wanted| wanted != run) {
            return Err(JournalError::OtherRun { path: path.to_owned(), run });
        }
        file.set_len(whole as u64).await.map_err(failed)?;
        if whole == 0 {
            file.write_all(format!("{TITLE}\t{run}\n").as_bytes()).await.map_err(failed)?;
            file.flush().await.map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), run, settled, file: Mutex::new(file) })
    }

    /// The run and its settled lines; `None` for an empty text. The error is the number of a line that does not fit.
    fn parse(text: &str) -> Result<Option<(String, HashSet<String>)>, usize> {
        let mut lines = text.lines();
        let Some(title) = lines.next() else { return Ok(None) };
        let run = title.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix('\t')).ok_or(1_usize)?;
        let settled = lines.enumerate().map(|(index, line)| match line.rsplit_once('\t') {
            Some((settled, "applied" | "refused")) => Ok(settled.to_owned()),
            _ => Err(index + 2),
        });
        Ok(Some((run.to_owned(), settled.collect::<Result<_, _>>()?)))
    }

    /// The name of the run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Refuses a file that has settled a line that is not among these, which are all of the orders.
    ///
    /// # Errors
    ///
    /// [`JournalError::OtherOrders`].
    pub fn check(&self, lines: &[OrderLine]) -> Result<(), JournalError> {
        let known: HashSet<_> = lines.iter().map(name).collect();
        let stranger = self.settled.iter().find(|settled| !known.contains(*settled));
        stranger.map_or(Ok(()), |settled| {
            Err(JournalError::OtherOrders { path: self.path.clone(), line: settled.replace('\t', " ") })
        })
    }

    /// Whether the outcome of this line is known from before.
    #[must_use]
    pub fn has(&self, line: &OrderLine) -> bool {
        self.settled.contains(&name(line))
    }

    /// Writes a final outcome of a line down. A line that failed, or whose outcome is unknown, is sent again the next
    /// time.
    pub(crate) async fn settle(&self, line: &OrderLine, verdict: Verdict) -> Result<(), JournalError> {
        let word = match verdict {
            Verdict::Applied => "applied",
            Verdict::Refused => "refused",
            Verdict::Failed | Verdict::Unknown => return Ok(()),
        };
        let text = format!("{}\t{word}\n", name(line));
        let mut file = self.file.lock().await;
        let written = async {
            file.write_all(text.as_bytes()).await?;
            // A file of tokio writes behind: only `flush` says whether it wrote.
            file.flush().await
        };
        written.await.map_err(|error| JournalError::File(self.path.clone(), error))
    }
}

/// A line as the file names it. Other lines of the orders have other references; SKU and units tell whether the line is
/// still the same.
fn name(line: &OrderLine) -> String {
    format!("{}\t{}\t{}", line.reference(), line.sku, line.delta.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_form_is_read() {
        let (run, settled) =
            Journal::parse("inventory replay\tr1\n536365#1\tA\t-1\tapplied\na\tb#2\trefused\n").unwrap().unwrap();
        assert_eq!((run.as_str(), settled.len(), settled.contains("a\tb#2")), ("r1", 2, true));
        assert!(Journal::parse("").unwrap().is_none());
        assert_eq!(Journal::parse("InvoiceNo,StockCode\n"), Err(1));
        assert_eq!(Journal::parse("inventory replay\tr1\n536365#1\tapplied\n536365#2\n"), Err(3));
        assert_eq!(Journal::parse("inventory replay\tr1\n536365#1\tunknown\n"), Err(2));
    }
}
