use serde::Deserialize;

/// How many callers ask at once on each side: 8 to 2,000.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
pub(crate) struct Callers(u32);

impl Callers {
    pub(super) fn get(self) -> u32 {
        self.0
    }
}

impl Default for Callers {
    fn default() -> Self {
        Self(2_000)
    }
}

impl TryFrom<u32> for Callers {
    type Error = &'static str;

    fn try_from(callers: u32) -> Result<Self, Self::Error> {
        if (8..=2_000).contains(&callers) { Ok(Self(callers)) } else { Err("callers: 8 to 2000") }
    }
}
