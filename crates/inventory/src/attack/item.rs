use std::borrow::Cow;

use stockade::Resource;

/// What is asked for, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item(pub(super) u32);

impl Resource for Item {
    const KIND: &'static str = "attack";

    fn id(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}
