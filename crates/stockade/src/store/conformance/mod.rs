//! What a [`LockStore`](super::LockStore) must do, as tests that run against each of them.
//!
//! A store instantiates the groups of the suite that it promises with [`conformance!`], giving an async function that
//! makes a [`Fixture`].

mod admin;
mod cancel;
mod change;
#[path = "../../../tests/it/ending.rs"]
mod ending;
mod exclusion;
mod fixture;
mod lease;
mod leftovers;
mod queue;
mod semaphore;
mod several;
mod token;

pub(crate) use admin::*;
pub(crate) use cancel::*;
pub(crate) use change::*;
pub(crate) use ending::Ending;
pub(crate) use exclusion::*;
pub(crate) use fixture::{Fixture, run};
pub(in crate::store) use fixture::{attempt, key, once, read, write};
pub(crate) use lease::*;
pub(crate) use leftovers::*;
pub(crate) use queue::*;
pub(crate) use semaphore::*;
pub(crate) use several::*;
pub(crate) use token::*;

/// Makes one test per statement of a group. The first argument is an async function without arguments that returns a
/// [`Fixture`](crate::store::conformance::Fixture). Every store has to promise the group `exclusive`.
macro_rules! conformance {
    ($fixture:path: exclusive) => {
        $crate::store::conformance::conformance! { @each $fixture:
            a_lease_that_is_not_renewed_passes_to_the_next_in_time
            a_lost_owner_cannot_free_its_successor
            a_release_that_is_detached_serves_the_next
            a_second_release_frees_nothing
            a_seed_raises_the_tokens_that_follow
            a_store_that_shut_down_refuses
            a_wait_ends_within_its_limit
            a_waiter_without_limit_is_served
            an_attempt_that_does_not_wait_is_told_the_time_left
            attempts_cancelled_at_any_point_leave_nothing
            owners_are_never_repeated
            renewal_keeps_a_lock_beyond_its_lease
            renewal_of_what_is_gone_is_a_loss_and_creates_nothing
            resources_do_not_hinder_one_another
            several_are_had_all_or_none
            several_dropped_at_any_point_leave_nothing
            several_in_opposite_orders_all_come_through
            several_that_wait_in_vain_leave_nothing
            the_loss_of_one_of_several_is_the_loss_of_all
            tokens_increase_whatever_ended_the_ownership_before
            writers_exclude_one_another
        }
    };
    // Locks on several servers can't promise these. They have no queue, no readers and no permits, and push nothing.
    // All that they store is a random value: no tag and no token, and no owner that another process could take over.
    ($fixture:path: queued) => {
        $crate::store::conformance::conformance! { @each $fixture:
            a_dead_permit_holder_costs_at_most_its_lease
            a_downgrade_lets_the_readers_at_the_head_in_and_no_writer
            a_downgrade_with_a_writer_at_the_head_lets_nobody_in
            a_downgraded_lock_is_renewed_as_a_reader
            a_forced_release_tells_the_holder_and_serves_the_next
            a_forced_semaphore_goes_to_those_who_wait
            a_grant_that_nobody_takes_goes_to_the_next
            a_handover_is_adopted_once
            a_handover_that_nobody_adopts_ends_with_its_lease
            a_handover_that_was_forced_or_forged_is_not_adopted
            a_loss_while_waiting_for_the_others_gives_all_up
            a_patient_force_lets_readers_run_out
            a_permit_given_back_goes_to_the_head_of_the_queue
            a_permit_that_is_not_renewed_ends_alone
            a_reader_that_is_not_renewed_ends_alone
            a_reader_waits_behind_a_waiting_writer
            a_waiter_that_goes_lets_those_behind_it_have_free_permits
            a_waiter_that_gives_up_knows_its_place
            a_writer_that_stops_waiting_lets_the_readers_behind_it_in
            an_adopted_lock_has_a_token_of_its_own
            an_adoption_that_is_dropped_leaves_nothing
            an_inspection_shows_holders_and_queue
            another_capacity_is_refused_while_the_semaphore_is_in_use
            free_permits_go_to_the_head_of_the_queue_together
            no_more_permits_are_out_than_the_semaphore_has
            permits_readers_and_writers_are_one_queue
            readers_have_tokens_of_their_own
            readers_share_and_writers_exclude
            several_do_not_overtake_who_waits
            the_queue_is_bounded
            the_run_of_readers_at_the_head_enters_together
            waiters_are_served_in_the_order_they_came
            what_was_lost_is_not_downgraded
        }
    };
    (@each $fixture:path: $($name:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::store::conformance::run($fixture(), $crate::store::conformance::$name).await;
            }
        )+
    };
}
pub(crate) use conformance;
