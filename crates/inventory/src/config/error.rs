use std::fmt;

/// The exit status of a start that its configuration prevents: `EX_CONFIG` of sysexits.h.
pub const EX_CONFIG: u8 = 78;

/// A setting that can't be used: its name, its value, its fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}{}: {problem}: {remedy}", shown(.value.as_deref()))]
pub struct ConfigError {
    /// The environment variable; the flag has the same name in lower case with dashes.
    pub variable: String,
    /// Its value; `None` where it is secret or missing.
    pub value: Option<String>,
    /// The fault of the value.
    pub problem: String,
    /// How to correct the setting.
    pub remedy: String,
}

/// All settings that can't be used, so that one start names them all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            several => {
                write!(f, "{} settings can't be used:", several.len())?;
                several.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// The errors that were found while settings were read. Reading goes on after an error, with `None` in place of the
/// value.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<ConfigError>);

impl Findings {
    /// The value, if it can be used.
    pub(super) fn note<T>(&mut self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|error| {
            // Two settings may be read from one variable.
            if !self.0.contains(&error) {
                self.0.push(error);
            }
        })
        .ok()
    }

    /// The result that was built of the values, if there was no error.
    pub(super) fn or<T>(self, built: Option<T>) -> Result<T, ConfigErrors> {
        match built {
            Some(built) if self.0.is_empty() => Ok(built),
            _ => Err(ConfigErrors(self.0)),
        }
    }
}

fn shown(value: Option<&str>) -> String {
    value.map(|value| format!("={value:?}")).unwrap_or_default()
}

impl ConfigError {
    pub(crate) fn new(variable: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), value: None, problem: problem.into(), remedy: remedy.into() }
    }

    pub(crate) fn with_value(mut self, value: &str) -> Self {
        self.value = Some(value.to_owned());
        self
    }
}
