use std::{fmt, sync::Arc};

/// The id of an owner: a process part and a counter, 28 characters, unique per attempt. It is a bearer secret of this
/// process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }

    pub(crate) fn of(process: &str, number: u64) -> Self {
        const DIGITS: usize = 11;
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number);
        let mut text = String::with_capacity(process.len() + 1 + DIGITS);
        text.push_str(process);
        text.push('.');
        text.extend(std::iter::repeat_n('0', DIGITS.saturating_sub(digits.len())));
        text.push_str(digits);
        Self::new(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The process part stays out of logs; the counter is enough to follow an attempt.
        let counter = self.0.rsplit('.').next().unwrap_or_default();
        write!(f, "Owner(….{counter})")
    }
}
