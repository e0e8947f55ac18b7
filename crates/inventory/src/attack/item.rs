use std::borrow::Cow;

use stockade::Resource;

/// An item of the table, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item(pub(super) u32);

impl Resource for Item {
    const KIND: &'static str = "attack";

    fn id(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}
