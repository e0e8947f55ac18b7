use std::time::Duration;

use redis::Value;

use super::words::{fields, number, token};
use crate::{
    redis::{LinkError, text},
    store::{Inspection, Mode, Party},
};

pub(crate) fn inspection(value: &Value) -> Result<Inspection, LinkError> {
    read_inspection(value).ok_or(LinkError::Protocol { op: "inspect" })
}

fn read_inspection(value: &Value) -> Option<Inspection> {
    let Value::Array(parts) = value else { return None };
    let [now, state, Value::Array(shared), Value::Array(waiters), Value::Int(waiting)] = parts.as_slice() else {
        return None;
    };
    let now = number(text(now)?)?;
    let left = |x: &str| Some(Duration::from_micros(number(x)?.saturating_sub(now)));
    let since = |at: u64| Duration::from_micros(now.saturating_sub(at));
    // The token is the time of the grant, or more if the floor was ahead of the clock. The grant can't have been later
    // than the last renewal, so the earlier of the two counts.
    let holder = |mode, of, x, len, tag: &str| {
        let renewed = number(x)?.saturating_sub(number(len)?);
        let (age, remaining) = (Some(since(number(of)?.min(renewed))), left(x)?);
        Some(Party { mode, tag: tag.to_owned(), token: token(of), age, remaining, position: None })
    };
    let mut holders = Vec::new();
    let state = text(state)?;
    match mode(state) {
        Some(Mode::Write) => {
            // `w queue unconfirmed owner token x len tag`
            let [_, _, _, _, of, x, len, tag] = fields(state)?;
            holders.push(holder(Mode::Write, of, x, len, tag)?);
        }
        Some(mode) => {
            // The only reader: `r 0 0 owner token x len yield tag`
            if let Some([_, _, _, _, of, x, len, _, tag]) = fields(state) {
                holders.push(holder(mode, of, x, len, tag)?);
            } else {
                // `mode queue first at`, and the capacity of a semaphore
                let [_, _, first, at] = fields(state)?;
                number(first).zip(number(at.split(' ').next()?))?;
                for shared in shared {
                    // `x token unconfirmed lease yield tag`
                    let [x, of, _, len, _, tag] = fields(text(shared)?)?;
                    holders.push(holder(mode, of, x, len, tag)?);
                }
            }
        }
        None if matches!(state, "" | "n 1") => {}
        None => return None,
    }
    // A lease that is over is not shown, even if no script has ended it yet.
    holders.retain(|party| !party.remaining.is_zero());
    let mut queue = Vec::new();
    for (waiter, position) in waiters.iter().zip(1..) {
        // `place mode deadline lease yield tag`
        let [place, wants, deadline, _, _, tag] = fields(text(waiter)?)?;
        let (age, remaining) = (Some(since(number(place)?)), left(deadline)?);
        queue.push(Party {
            mode: mode(wants)?,
            tag: tag.to_owned(),
            token: None,
            age,
            remaining,
            position: Some(position),
        });
    }
    Some(Inspection { holders, waiters: queue, waiting: u64::try_from(*waiting).ok()? })
}

/// The mode that a state or a waiter's record begins with; `None` for the state of a free resource.
fn mode(text: &str) -> Option<Mode> {
    match text.bytes().next()? {
        b'w' => Some(Mode::Write),
        b'r' => Some(Mode::Read),
        b's' => Some(Mode::Permit),
        _ => None,
    }
}
