use super::{failed_load::Loads, start::Leased};
use crate::{
    cache::{
        Loaded,
        core::{CacheKey, CacheValue, Core},
        flight::{Answer, Outcome, Pilot},
        load::{Admission, Load},
        store::{Filled, Filling, Hold},
    },
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn load_leased(
        &self,
        admission: Option<Admission<'_>>,
        key: K,
        name: &Key,
        pilot: &Pilot<V>,
        leased: Leased<V>,
    ) -> Outcome<V> {
        match self.loader.run(admission, key, name, || pilot.ask()).await {
            Ok(load) => self.store_loaded(name, pilot, &leased, load).await,
            Err(error) => self.give_up(name, leased, error, Loads::One).await,
        }
    }

    /// Stores a loaded value if its lease is still valid.
    pub(crate) async fn store_loaded(
        &self,
        name: &Key,
        pilot: &Pilot<V>,
        leased: &Leased<V>,
        load: Load<Loaded<V>>,
    ) -> Outcome<V> {
        let Leased { token, reservation, trust, .. } = leased;
        let Load { loaded, took, mark } = load;
        let encoded = self.settings.envelope.encode(loaded.value.as_ref());
        let ttl = self.settings.lifetime(&loaded);
        let mut answer = Answer::unstored(loaded, encoded.as_ref().map_or(0, |encoded| encoded.weight), false);
        let bytes = match encoded {
            Ok(encoded) => encoded.bytes,
            Err(reason) => {
                self.counters.refused(self.settings.name, reason.label());
                tracing::warn!(cache = self.settings.name, %reason, "value not stored");
                self.store.abort(name, token, Hold::Unstorable).await;
                return Outcome::Answer(answer, Some(mark));
            }
        };
        answer.entry.expires = answer.entry.loaded + ttl;
        answer.entry.took = took;
        pilot.close();
        let filling = Filling { entry: &answer.entry, bytes, ttl };
        let filled = self.store.fill(name, token, *reservation, filling).await;
        if !matches!(filled, Filled::Accepted) {
            answer.entry.expires = answer.entry.loaded;
        }
        match filled {
            Filled::Accepted => {
                answer.stored = true;
                // A server that lost the write which voided the token accepts the value. So without trust in the store
                // only passengers that boarded before the load take it.
                Outcome::Answer(answer, (!self.still_trusted(*trust)).then_some(mark))
            }
            Filled::Refused => {
                self.counters.fill_rejected(self.settings.name);
                Outcome::Answer(answer, Some(mark))
            }
            Filled::Unknown => {
                answer.degraded = true;
                Outcome::Answer(answer, Some(mark))
            }
        }
    }
}
