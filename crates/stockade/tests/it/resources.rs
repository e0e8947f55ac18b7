//! What the tests lock.

use std::borrow::Cow;

use stockade::Resource;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item(pub(crate) u32);

impl Resource for Item {
    const KIND: &'static str = "item";

    fn id(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sku(pub(crate) &'static str);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}
