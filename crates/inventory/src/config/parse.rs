//! A function for each form that a value may have.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use super::{ConfigError, Secret};

const DURATION: &str = "use a number with a unit, such as 250ms, 2s or 5min";

/// A duration within `limits`.
pub(crate) fn duration(variable: &str, text: &str, limits: RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
    let value = humantime::parse_duration(text.trim())
        .map_err(|_| ConfigError::new(variable, "not a duration", DURATION).with_value(text))?;
    if !limits.contains(&value) {
        let remedy = format!("use {} to {}", shown(*limits.start()), shown(*limits.end()));
        return Err(ConfigError::new(variable, "out of range", remedy).with_value(text));
    }
    Ok(value)
}

/// Two durations, `300s..600s`, or one for both ends. An `=` before the second is fine: both ends belong to the range.
pub(super) fn durations(
    variable: &str,
    text: &str,
    limits: RangeInclusive<Duration>,
) -> Result<RangeInclusive<Duration>, ConfigError> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let to = to.strip_prefix('=').unwrap_or(to);
    // An error names the whole value, not one end of it.
    let end = |end: &str| {
        duration(variable, end, limits.clone()).map_err(|error| match error.problem.as_str() {
            "not a duration" => ConfigError::new(variable, "not a range of durations", "write it as 300s..600s"),
            _ => error,
        })
    };
    let (from, to) = match (end(from), end(to)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(error), _) | (_, Err(error)) => return Err(error.with_value(text)),
    };
    if from > to {
        return Err(ConfigError::new(variable, "ends before it begins", "put the shorter one first").with_value(text));
    }
    Ok(from..=to)
}

/// A number within `limits`.
pub(super) fn number(variable: &str, text: &str, limits: RangeInclusive<u32>) -> Result<u32, ConfigError> {
    let remedy = || format!("use a whole number from {} to {}", limits.start(), limits.end());
    let value: u32 =
        text.trim().parse().map_err(|_| ConfigError::new(variable, "not a number", remedy()).with_value(text))?;
    if !limits.contains(&value) {
        return Err(ConfigError::new(variable, "out of range", remedy()).with_value(text));
    }
    Ok(value)
}

/// `on` or `off`.
pub(super) fn on_or_off(variable: &str, text: &str) -> Result<bool, ConfigError> {
    let word = match text.trim() {
        "0" => "off",
        "1" => "on",
        _ => text,
    };
    either(variable, word, [("off", false), ("on", true)])
}

/// One of two words.
pub(super) fn either<T>(
    variable: &str,
    text: &str,
    [(one, first), (other, second)]: [(&str, T); 2],
) -> Result<T, ConfigError> {
    match text.trim() {
        word if word == one => Ok(first),
        word if word == other => Ok(second),
        _ => Err(ConfigError::new(variable, "unknown", format!("use `{one}` or `{other}`")).with_value(text)),
    }
}

/// An address with its port.
pub(crate) fn address(variable: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.trim().parse().map_err(|_| {
        ConfigError::new(variable, "not an address", "use IP:PORT, such as 127.0.0.1:8080 or [::]:8080")
            .with_value(text)
    })
}

/// A secret given as it is or in a file, without white space around it; empty counts as not given.
pub(crate) fn secret(
    variable: &str,
    given: Option<&Secret>,
    file: Option<&str>,
) -> Result<Option<Secret>, ConfigError> {
    let secret = password(variable, given, file)?;
    Ok(secret.map(|secret| secret.expose().trim().to_owned().into()))
}

/// A secret that may begin and end with spaces. In a file the end of the last line is not a part of it.
pub(super) fn password(
    variable: &str,
    given: Option<&Secret>,
    file: Option<&str>,
) -> Result<Option<Secret>, ConfigError> {
    let given = given.filter(|secret| !secret.expose().trim().is_empty());
    let file = file.filter(|file| !file.is_empty());
    let file_variable = format!("{variable}_FILE");
    match (given, file) {
        (Some(_), Some(_)) => {
            Err(ConfigError::new(variable, format!("{file_variable} is set as well"), "set one of the two"))
        }
        (Some(secret), None) => Ok(Some(secret.expose().to_owned().into())),
        (None, None) => Ok(None),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let remedy = "name a file that this process may read";
                ConfigError::new(&file_variable, format!("the file can't be read ({error})"), remedy).with_value(file)
            })?;
            if text.trim().is_empty() {
                let remedy = format!("put the value of {variable} into it");
                return Err(ConfigError::new(&file_variable, "the file is empty", remedy).with_value(file));
            }
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned().into()))
        }
    }
}

pub(super) fn shown(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

    #[test]
    fn an_error_names_variable_value_and_remedy() {
        let error = duration("LOCK_WAIT", "2x", LIMITS).unwrap_err().to_string();
        assert_eq!(error, r#"LOCK_WAIT="2x": not a duration: use a number with a unit, such as 250ms, 2s or 5min"#);
        let error = duration("LOCK_WAIT", "2h", LIMITS).unwrap_err().to_string();
        assert_eq!(error, r#"LOCK_WAIT="2h": out of range: use 1s to 1h"#);
        let error = durations("CACHE_TTL", "10m..9m", LIMITS).unwrap_err().to_string();
        assert_eq!(error, r#"CACHE_TTL="10m..9m": ends before it begins: put the shorter one first"#);
        let error = durations("CACHE_TTL", "5m..x", LIMITS).unwrap_err().to_string();
        assert_eq!(error, r#"CACHE_TTL="5m..x": not a range of durations: write it as 300s..600s"#);
    }

    #[test]
    fn a_range_has_both_ends_and_may_be_one_value() {
        let second = Duration::from_secs;
        assert_eq!(durations("X", "300s..600s", LIMITS).unwrap(), second(300)..=second(600));
        assert_eq!(durations("X", "5m..=10m", LIMITS).unwrap(), second(300)..=second(600));
        assert_eq!(durations("X", "90s", LIMITS).unwrap(), second(90)..=second(90));
    }

    #[test]
    fn a_secret_comes_from_one_place_and_is_never_shown() {
        let secret_value = Secret::from("hunter2".to_owned());
        let error = secret("ADMIN_TOKEN", Some(&secret_value), Some("/run/secrets/x")).unwrap_err().to_string();
        assert_eq!(error, "ADMIN_TOKEN: ADMIN_TOKEN_FILE is set as well: set one of the two");
        assert_eq!(format!("{secret_value:?}"), "Secret(…)");
        assert!(secret("ADMIN_TOKEN", Some(&String::new().into()), None).unwrap().is_none());
    }

    #[test]
    fn a_password_keeps_its_spaces_and_loses_the_end_of_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, " p w \n").unwrap();
        let spaced = Some(Secret::from(" p w ".to_owned()));
        assert_eq!(password("X", spaced.as_ref(), None).unwrap(), spaced);
        assert_eq!(password("X", None, file.to_str()).unwrap(), spaced);
        assert_eq!(secret("X", None, file.to_str()).unwrap(), Some("p w".to_owned().into()));
    }
}
