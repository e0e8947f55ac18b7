use crate::domain::Sku;

/// The keys of a SKU's sale, all in one slot of a cluster.
pub(super) struct Keys {
    /// The counter: its sale, the run of the server, the units left.
    pub(super) sale: String,
    /// Units by customer.
    pub(super) customers: String,
    /// Content by the reservation's id.
    pub(super) reservations: String,
    /// The entries that Postgres does not have yet.
    pub(super) stream: String,
}

impl Keys {
    pub(super) fn of(sku: &Sku) -> Self {
        // Encoded, since a brace in a SKU would end the hash tag.
        let tag = sku.path_segment();
        let key = |part: &str| format!("inventory:flash:{{{tag}}}:{part}");
        Self {
            sale: key("sale"),
            customers: key("customers"),
            reservations: key("reservations"),
            stream: key("stream"),
        }
    }

    /// The keys, in the order that the scripts expect.
    pub(super) fn all(&self) -> [&str; 4] {
        [&self.sale, &self.customers, &self.reservations, &self.stream]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_the_whole_sku_whatever_it_holds() {
        let keys = Keys::of(&Sku::new("a}b{c").unwrap());
        assert_eq!(keys.sale, "inventory:flash:{a%7Db%7Bc}:sale");
        assert!(keys.all().iter().all(|key| key.starts_with("inventory:flash:{a%7Db%7Bc}:")));
    }
}
