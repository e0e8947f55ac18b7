/// The exit status of a start that its configuration prevents: `EX_CONFIG` of sysexits.h.
pub const EX_CONFIG: u8 = 78;

/// A setting that can't be used: which one, what it says, and what it should say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}{}: {problem}: {remedy}", shown(.value.as_deref()))]
pub struct ConfigError {
    /// The environment variable; the flag has the same name in lower case with dashes.
    pub variable: String,
    /// Its value; `None` where it is secret or missing.
    pub value: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

fn shown(value: Option<&str>) -> String {
    value.map(|value| format!("={value:?}")).unwrap_or_default()
}

impl ConfigError {
    pub(super) fn new(variable: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), value: None, problem: problem.into(), remedy: remedy.into() }
    }

    pub(super) fn with_value(mut self, value: &str) -> Self {
        self.value = Some(value.to_owned());
        self
    }
}
