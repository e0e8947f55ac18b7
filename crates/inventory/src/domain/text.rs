/// A text that is empty, too long, or holds a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {of} needs 1 to {max} characters, none of them a control character")]
pub struct TextError {
    of: &'static str,
    max: usize,
}

/// The text, if it has 1 to `max` Unicode scalar values, none of them a control character.
pub(super) fn checked(of: &'static str, text: String, max: usize) -> Result<String, TextError> {
    let fits = !text.is_empty() && text.chars().nth(max).is_none() && !text.chars().any(char::is_control);
    if fits { Ok(text) } else { Err(TextError { of, max }) }
}
