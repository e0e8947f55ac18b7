use redis::Value;

use super::words::{text, token};
use crate::{redis::LinkError, store::Token};

/// The number of holders and the token in the reply to a FORCE.
pub(crate) fn forced(value: &Value) -> Result<(u64, Token), LinkError> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(holders), of] => {
                u64::try_from(*holders).ok().zip(text(of).and_then(token)).ok_or(LinkError::Protocol { op: "force" })
            }
            _ => Err(LinkError::Protocol { op: "force" }),
        },
        _ => Err(LinkError::Protocol { op: "force" }),
    }
}
