use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use stockade::Resource;

/// The page that is read from caches.
#[derive(Clone)]
pub(crate) struct Page(pub(crate) u32);

impl Resource for Page {
    const KIND: &'static str = "page";

    fn id(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.to_string())
    }
}

/// 256 bytes of text, the size that the floors read too.
#[derive(Serialize, Deserialize)]
pub(crate) struct Text(String);

impl Default for Text {
    fn default() -> Self {
        Self("x".repeat(256))
    }
}
