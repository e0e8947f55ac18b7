use std::borrow::Cow;

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
