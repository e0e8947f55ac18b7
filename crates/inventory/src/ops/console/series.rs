/// One line of the Prometheus text format, behind the name.
#[derive(Debug, PartialEq)]
pub(super) struct Series<'a> {
    labels: Vec<(&'a str, &'a str)>,
    pub(super) value: f64,
}

impl<'a> Series<'a> {
    /// Reads a line; `None` if it has another form.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line.trim_start_matches(|letter: char| letter != '{' && letter != ' ');
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (name, quoted) = rest.split_once("=\"")?;
                let end = end_of_quoted(quoted)?;
                labels.push((name, &quoted[..end]));
                rest = &quoted[end + 1..];
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            rest = &rest[1..];
        }
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self { labels, value })
    }

    /// The value of a label, as it is written. The console reads labels from closed sets only: none of their values is
    /// escaped.
    pub(super) fn label(&self, name: &str) -> Option<&'a str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
    }
}

/// The position of the quote that ends a label value. A quote behind a backslash is part of the value.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_commas_and_quotes_may_be_inside_a_value() {
        let series =
            Series::parse(r#"x_total{route="/stock/{sku}",a="b,c=\"d\" }\\",le="+Inf"} 12.5 1700000000"#).unwrap();
        assert_eq!(series.label("route"), Some("/stock/{sku}"));
        assert_eq!(series.label("a"), Some(r#"b,c=\"d\" }\\"#));
        assert_eq!((series.label("le"), series.value), (Some("+Inf"), 12.5));
        assert_eq!(Series::parse("up 1"), Some(Series { labels: vec![], value: 1.0 }));
    }

    #[test]
    fn what_is_cut_off_is_no_series() {
        let whole = r#"x_total{route="/stock/{sku}"} 1"#;
        for end in 0..whole.len() {
            assert_eq!(Series::parse(&whole[..end]), None, "{}", &whole[..end]);
        }
    }
}
