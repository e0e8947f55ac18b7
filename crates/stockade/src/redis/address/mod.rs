//! Where Redis is (one server, a primary that sentinels know, or a cluster) and how to log in there.

mod kind;
mod node;
mod pool;
mod source;
mod tls;
mod topology;
mod url;

pub(super) use kind::{ALONE, Expected, Kind, NODE, SENTINEL};
pub(crate) use node::Node;
pub use pool::Pool;
pub use source::Source;
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
#[cfg(not(feature = "tls"))]
pub(super) use tls::TlsOptions;
#[cfg(feature = "tls")]
pub(super) use tls::{NO_TLS, explain, is_plain};
pub(super) use tls::{ONLY_TLS, is_wanted};
pub(super) use topology::Topology;
