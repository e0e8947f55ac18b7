use serde::Deserialize;
use utoipa::ToSchema;

use super::text::{TextError, checked};

/// The name of a customer in a flash sale: 1 to 64 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, min_length = 1, max_length = 64, example = "customer-17")]
pub struct Customer(String);

impl TryFrom<String> for Customer {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        checked("customer", text, 64).map(Self)
    }
}

impl Customer {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_customer_has_1_to_64_characters_and_no_control_character() {
        for text in ["a".to_owned(), "\u{1f4e6}".repeat(64), "Zoë 7".to_owned()] {
            assert_eq!(Customer::try_from(text.clone()).unwrap().as_str(), text);
        }
        for text in [String::new(), "a".repeat(65), "a\0".to_owned(), "\n".to_owned()] {
            let error = Customer::try_from(text).unwrap_err().to_string();
            assert_eq!(error, "the customer needs 1 to 64 characters, none of them a control character");
        }
    }
}
