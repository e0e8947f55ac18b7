use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// `%` keeps the encoding reversible, `:` ends the kind, braces would move the key to another Cluster slot.
const RESERVED: &AsciiSet = &CONTROLS.add(b'%').add(b':').add(b'{').add(b'}');

/// Appends `text` with `%`, `:`, `{`, `}` and control characters written as `%XX`; all other UTF-8 stays as it is.
pub(crate) fn escape_into(out: &mut String, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b':' | b'{' | b'}')) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        if character.is_ascii() || character.is_control() {
            // The C1 controls lie outside ASCII, where the crate encodes every byte; other UTF-8 must not go through
            // it.
            out.extend(utf8_percent_encode(character.encode_utf8(&mut [0; 4]), RESERVED));
        } else {
            out.push(character);
        }
    }
}
