use crate::{
    cache::{
        Source,
        core::{CacheKey, CacheValue, Core},
        flight::{Answer, Outcome, Pilot},
    },
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// A load without a lease, as while a writer commits. It is unknown whether the value holds that write, so no
    /// caller may board once the load runs.
    pub(crate) async fn load_unleased(&self, key: K, name: &Key, pilot: &Pilot<V>, degraded: bool) -> Outcome<V> {
        let begin = || {
            pilot.close();
            pilot.ask()
        };
        if let Some(error) = self.held_off(name) {
            return self.unleased_failed(name, error);
        }
        match self.loader.run(None, key, name, begin).await {
            Ok(load) => Outcome::Answer(Answer::unstored(load.loaded, 0, degraded), Some(load.mark)),
            Err(error) => self.unleased_failed(name, error),
        }
    }

    /// A load while the store is away. Callers may board while it runs: their answer is marked as degraded, and a write
    /// of this process detaches the flight. In a strict cache they may not.
    pub(crate) async fn load_degraded(&self, key: K, name: &Key, pilot: &Pilot<V>) -> Outcome<V> {
        if self.settings.strict.is_some() {
            return self.load_unleased(key, name, pilot, true).await;
        }
        let mark = pilot.ask();
        if let Some(entry) = self.within_grace(name) {
            return Outcome::Answer(Answer::from_entry(entry, Source::Local, true), Some(mark));
        }
        if let Some(error) = self.held_off(name) {
            return Outcome::Failed(error);
        }
        let reservation = self.local.reserve(name);
        match self.loader.run(None, key, name, || pilot.ask()).await {
            Ok(load) => {
                pilot.close();
                let tags = load.loaded.known_tags();
                let valid_for = (!self.local.holds(reservation, &tags)).then_some(load.mark);
                Outcome::Answer(Answer::unstored(load.loaded, 0, true), valid_for)
            }
            Err(error) => Outcome::Failed(error),
        }
    }
}
