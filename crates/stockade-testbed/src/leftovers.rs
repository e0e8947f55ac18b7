//! The keys, channels and connections that clients have left behind on servers.

use std::fmt;

/// Keys, subscriptions and connections of Stockade that still exist although nobody should need them any more.
///
/// Token floors (`…}f`) are no leftovers: they stay on purpose. Channels of sentinels are no leftovers either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers {
    /// Names of keys.
    pub keys: Vec<String>,
    /// Names of channels that somebody is subscribed to, sharded ones included.
    pub channels: Vec<String>,
    /// Connections whose name starts with `stockade:`: the name, the address of its client and the last command.
    pub clients: Vec<String>,
}

impl Leftovers {
    /// True when there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.channels.is_empty() && self.clients.is_empty()
    }

    /// Leaves out the keys, channels and connections whose name the rule accepts.
    #[must_use]
    pub fn ignoring(mut self, rule: impl Fn(&str) -> bool) -> Self {
        for left in [&mut self.keys, &mut self.channels, &mut self.clients] {
            left.retain(|name| !rule(name));
        }
        self
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys {:?}, channels {:?}, clients {:?}", self.keys, self.channels, self.clients)
    }
}
