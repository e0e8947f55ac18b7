use std::borrow::Cow;

use super::Resource;

/// What the tests of this crate lock and cache.
#[derive(Clone)]
pub(crate) struct Sku(pub(crate) &'static str);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}
