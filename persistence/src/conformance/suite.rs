//! The lists of checks, as macros that make a test of each.

/// One `#[tokio::test]` for each check that a backend with one master or more must pass.
#[macro_export]
macro_rules! conformance_suite {
    ($fixture:ty) => {
        $crate::conformance_checks! { $fixture;
            durability: acknowledged_batches_survive_a_clean_restart;
            durability: acknowledged_batches_survive_a_crash;
            durability: acknowledged_batches_survive_a_torn_tail;
            durability: records_of_the_largest_size_survive;
            durability: overwrites_and_deletes_survive;
            fencing: a_batch_of_a_fenced_epoch_is_never_stored;
            fencing: a_batch_of_an_epoch_that_was_not_opened_is_refused;
            fencing: a_smaller_epoch_cannot_be_opened;
            fencing: the_open_epoch_can_be_opened_again;
            fencing: a_fenced_epoch_is_not_confirmed;
            fencing: the_fence_survives_a_crash;
            fencing: an_old_leader_that_races_with_a_new_one_stores_nothing_unseen;
            election: epochs_rise_with_every_leadership;
            election: epochs_rise_across_restarts;
            election: resigning_ends_leadership;
            election: observers_see_the_leader;
            election: a_dropped_campaign_does_not_win_in_secret;
            election: a_closed_backend_does_not_campaign;
            recovery: a_fresh_store_is_empty;
            recovery: records_come_back_ordered_and_exact;
            recovery: a_batch_over_a_limit_is_rejected_and_disturbs_nothing;
            recovery: an_empty_batch_proves_the_epoch;
            recovery: batches_are_numbered_in_the_order_of_their_commits;
            recovery: an_open_data_directory_is_in_use;
            indeterminate: a_batch_whose_answer_was_lost_is_stored_whole;
            indeterminate: a_batch_whose_request_was_lost_is_not_stored;
            indeterminate: a_dropped_commit_is_stored_whole_or_not_at_all;
            indeterminate: under_seeded_faults_every_outcome_is_honest;
            moving: epochs_after_a_raised_floor_are_larger_for_ever;
            moving: a_leader_that_raises_the_floor_can_still_write;
            moving: a_floor_that_is_too_large_is_refused;
            moving: a_cut_from_any_master_has_all_that_was_acknowledged;
            snapshots: many_overwrites_need_bounded_space_and_keep_the_last_values;
        }
    };
}

/// One `#[tokio::test]` for each check that needs at least two masters.
#[macro_export]
macro_rules! contention_suite {
    ($fixture:ty) => {
        $crate::conformance_checks! { $fixture;
            contention: another_master_has_all_that_the_dead_leader_acknowledged;
            contention: a_deposed_leader_stores_nothing_more;
            contention: two_masters_never_lead_in_one_epoch;
            contention: a_standby_takes_over_when_the_leader_resigns;
            contention: a_crashed_leader_comes_back_as_a_standby;
            contention: all_masters_see_the_same_leader;
        }
    };
}

/// For the two suites.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_checks {
    ($fixture:ty; $($topic:ident: $check:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::conformance::$topic::$check::<$fixture>().await;
            }
        )*
    };
}
