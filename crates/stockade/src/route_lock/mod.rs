//! The lock as a Tower layer.

mod body;
mod future;
mod held;
mod keys;
mod layer;
mod pace;
mod problem;
mod refusal;
mod rejection;
mod route;
mod section;
mod service;
mod settings;
mod template;
mod upload;

pub use future::ResponseFuture;
pub use held::Degraded;
pub use layer::RouteLock;
pub use problem::Problem;
pub use rejection::Rejection;
pub use service::RouteLockService;
pub use settings::{OnStoreError, Until};

use body::HeldBody;
pub(crate) use held::Held;
use keys::Keys;
use pace::Pace;
use refusal::{OnReject, Refusal};
use route::{Route, call};
use section::Section;
use settings::Settings;
use template::Template;
use upload::Upload;
