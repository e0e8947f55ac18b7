use serde::{Serialize, de::DeserializeOwned};

use crate::{
    cache::{CacheError, Inspection, Kept, Tier, core::Core},
    resource::{Key, Resource},
};

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) async fn inspect(&self, key: &K) -> Result<Inspection, CacheError> {
        let name = Key::of(key)?;
        let (redis, lease) = self.store.inspect(&name).await;
        let local = self.local.get(name.as_str()).map_or(Tier::Empty, |entry| Tier::Kept(Kept::of(&entry)));
        let fetching = [&self.flights, &self.refreshes, &self.reloads].iter().any(|flights| flights.has(&name));
        Ok(Inspection { local, redis, fetching, lease })
    }
}
