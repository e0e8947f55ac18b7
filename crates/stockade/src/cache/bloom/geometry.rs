use siphasher::sip128::{Hash128, SipHasher13};

/// The longest string of Redis, in bits.
const MOST_BITS: u64 = 1 << 32;

/// The size of a filter: how many bits, and how many of them each key sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) bits: u64,
    pub(super) hashes: u32,
}

impl Geometry {
    /// The size for this number of keys and rate of false positives. `None` if a string of Redis can't be that long.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the numbers are positive, and exact enough for a size"
    )]
    pub(super) fn of(expected: u64, rate: f64) -> Option<Self> {
        let ln2 = std::f64::consts::LN_2;
        let bits = (expected as f64 * -rate.ln() / (ln2 * ln2)).ceil().max(64.0);
        if bits > MOST_BITS as f64 {
            return None;
        }
        let hashes = (bits / expected as f64 * ln2).round().clamp(1.0, 32.0);
        Some(Self { bits: bits as u64, hashes: hashes as u32 })
    }

    /// The text in which the server stores the size.
    pub(super) fn text(self) -> String {
        format!("{} {}", self.bits, self.hashes)
    }

    /// The bits of a key, by double hashing with a cubic term: two keys with one equal hash do not share all bits
    /// (Dillinger and Manolios, "Bloom Filters in Probabilistic Verification", 2004).
    pub(super) fn bits_of(self, seed: Seed, key: &str) -> impl Iterator<Item = u64> {
        let Hash128 { h1: mut at, h2: mut step } = SipHasher13::new_with_keys(seed.0, seed.1).hash(key.as_bytes());
        (0..u64::from(self.hashes)).map(move |turn| {
            let bit = at % self.bits;
            at = at.wrapping_add(step);
            step = step.wrapping_add(turn);
            bit
        })
    }
}

/// The secret key of the hash function. It is chosen once for each filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seed(u64, u64);

impl Seed {
    pub(super) fn random() -> Self {
        Self(rand::random(), rand::random())
    }

    pub(super) fn text(self) -> String {
        format!("{:016x}{:016x}", self.0, self.1)
    }

    fn read(text: &str) -> Option<Self> {
        let half = |range| u64::from_str_radix(text.get(range)?, 16).ok();
        (text.len() == 32).then_some(())?;
        Some(Self(half(0..16)?, half(16..32)?))
    }
}

/// The properties of a filter that every process of the fleet must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Design {
    pub(super) seed: Seed,
    pub(super) geometry: Geometry,
}

impl Design {
    /// Reads the text `seed bits hashes`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let seed = Seed::read(words.next()?)?;
        let geometry = Geometry { bits: words.next()?.parse().ok()?, hashes: words.next()?.parse().ok()? };
        (geometry.bits > 0 && (1..=32).contains(&geometry.hashes)).then_some(Self { seed, geometry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_the_textbook() {
        assert_eq!(Geometry::of(1_000_000, 0.01), Some(Geometry { bits: 9_585_059, hashes: 7 }));
        assert_eq!(Geometry::of(10_000, 0.001), Some(Geometry { bits: 143_776, hashes: 10 }));
        assert_eq!(Geometry::of(1_000_000_000, 0.001), None);
    }

    #[test]
    fn a_seed_survives_its_text() {
        let seed = Seed::random();
        assert_eq!(Seed::read(&seed.text()), Some(seed));
        assert_eq!(Seed::read("abc"), None);
    }
}
