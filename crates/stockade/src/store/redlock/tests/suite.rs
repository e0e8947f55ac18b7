use std::sync::Arc;

use stockade_testbed::RedisServer;

use super::{Settings, connected};
use crate::store::{
    LockStore,
    conformance::{Fixture, conformance},
    redis::tests::patient,
};

async fn fixture() -> Fixture {
    let servers = RedisServer::start_many(3).await.unwrap();
    let mut handles = Vec::new();
    for server in &servers {
        handles.push(patient(&server.url()).await);
    }
    let store = async || connected(&handles, Settings::default()).await;
    let stores: [Arc<dyn LockStore>; 2] = [store().await, store().await];
    Fixture::new(stores.into(), servers).holders_only()
}

conformance!(
    fixture,
    a_dead_permit_holder_costs_at_most_its_lease = "no permits on this wire",
    a_downgrade_lets_the_readers_at_the_head_in_and_no_writer = "no shared mode on this wire",
    a_downgrade_with_a_writer_at_the_head_lets_nobody_in = "no shared mode on this wire",
    a_downgraded_lock_is_renewed_as_a_reader = "no shared mode on this wire",
    a_forced_release_tells_the_holder_and_serves_the_next =
        "nothing is pushed on this wire: the holder learns at its next extension",
    a_forced_semaphore_goes_to_those_who_wait = "no permits on this wire",
    a_grant_that_nobody_takes_goes_to_the_next = "nothing is handed over: who waits asks again",
    a_handover_is_adopted_once = "no owner on this wire that could be renamed",
    a_handover_that_nobody_adopts_ends_with_its_lease = "no owner on this wire that could be renamed",
    a_handover_that_was_forced_or_forged_is_not_adopted = "no owner on this wire that could be renamed",
    a_loss_while_waiting_for_the_others_gives_all_up = "no queue on this wire to see who waits",
    a_patient_force_lets_readers_run_out = "no shared mode on this wire",
    a_permit_given_back_goes_to_the_head_of_the_queue = "no permits on this wire",
    a_permit_that_is_not_renewed_ends_alone = "no permits on this wire",
    a_reader_that_is_not_renewed_ends_alone = "no shared mode on this wire",
    a_reader_waits_behind_a_waiting_writer = "no shared mode on this wire",
    a_waiter_that_goes_lets_those_behind_it_have_free_permits = "no permits on this wire",
    a_waiter_that_gives_up_knows_its_place = "no queue on this wire",
    a_writer_that_stops_waiting_lets_the_readers_behind_it_in = "no shared mode and no queue on this wire",
    an_adopted_lock_has_a_token_of_its_own = "no owner on this wire that could be renamed",
    an_adoption_that_is_dropped_leaves_nothing = "no owner on this wire that could be renamed",
    an_inspection_shows_holders_and_queue = "the wire carries a random value only: no tag, no token, no queue",
    another_capacity_is_refused_while_the_semaphore_is_in_use = "no permits on this wire",
    free_permits_go_to_the_head_of_the_queue_together = "no permits on this wire",
    no_more_permits_are_out_than_the_semaphore_has = "no permits on this wire",
    permits_readers_and_writers_are_one_queue = "no permits on this wire",
    readers_have_tokens_of_their_own = "no shared mode on this wire",
    readers_share_and_writers_exclude = "no shared mode on this wire",
    several_do_not_overtake_who_waits = "no queue on this wire",
    the_queue_is_bounded = "no queue on this wire",
    the_run_of_readers_at_the_head_enters_together = "no shared mode and no queue on this wire",
    waiters_are_served_in_the_order_they_came = "no queue on this wire",
    what_was_lost_is_not_downgraded = "no shared mode on this wire",
);
