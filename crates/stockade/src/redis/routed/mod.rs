//! The connections of one role to all servers that have a part of its keys. A bucket goes in, and the connection to its
//! server comes out.
//!
//! One server, or the primary that sentinels know, has all buckets for ever. In a cluster, each primary is a server of
//! its own. It is connected to when one of its buckets is first asked for. Buckets may move between nodes. The owner of
//! the link is told which buckets moved, see [`RoutedEvents`].
//!
//! - A node that gives a slot away makes all its clients reconnect. It ends its sharded subscriptions with a push that
//!   redis-rs takes for the reply to the oldest command. The link notices the push before a wrong reply is handed out,
//!   and believes no later reply.
//! - A node that names another owner of a slot is believed only with a newer epoch, or if that owner is the node
//!   itself. A node that was frozen during a failover repeats what was true before.
//!
//! # Files
//!
//! - [`link`]: the way from a bucket to its server. [`open`]: how a link is made.
//! - [`server`]: one server, with its connection, its runs and what the owner keeps for it. [`nodes`]: the primaries of
//!   a cluster.
//! - [`server_events`]: what a server tells. [`moves`]: what the discovery of a cluster tells.
//! - [`subscriptions`]: the sharded channels of one server. [`listening`]: how they are subscribed.
//! - [`redirects`]: how long a command looks for the server that can execute it.

mod events;
mod link;
mod listening;
mod moves;
mod nodes;
mod open;
mod redirects;
mod server;
mod server_events;
mod subscriptions;

pub(crate) use events::RoutedEvents;
pub(crate) use link::RoutedLink;
pub(crate) use redirects::Redirects;
pub(crate) use server::{Carrier, Run, Server, ServerState};
