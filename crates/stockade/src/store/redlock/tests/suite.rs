use std::sync::Arc;

use super::World;
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
};

async fn fixture() -> Fixture {
    let world = World::start(3).await;
    let stores: [Arc<dyn LockStore>; 2] = [world.store().await, world.store().await];
    Fixture::new(stores.into(), world).holders_only()
}

conformance!(
    fixture,
    a_forced_release_tells_the_holder_and_serves_the_next =
        "nothing is pushed on this wire: the holder learns at its next extension",
    a_grant_that_nobody_takes_goes_to_the_next = "nothing is handed over: who waits asks again",
    a_loss_while_waiting_for_the_others_gives_all_up = "no queue on this wire to see who waits",
    a_patient_force_lets_readers_run_out = "no shared mode on this wire",
    a_reader_waits_behind_a_waiting_writer = "no shared mode on this wire",
    a_writer_that_stops_waiting_lets_the_readers_behind_it_in = "no shared mode and no queue on this wire",
    an_inspection_shows_holders_and_queue = "the wire carries a random value only: no tag, no token, no queue",
    readers_have_tokens_of_their_own = "no shared mode on this wire",
    readers_share_and_writers_exclude = "no shared mode on this wire",
    several_do_not_overtake_who_waits = "no queue on this wire",
    the_queue_is_bounded = "no queue on this wire",
    the_run_of_readers_at_the_head_enters_together = "no shared mode and no queue on this wire",
    waiters_are_served_in_the_order_they_came = "no queue on this wire",
);
