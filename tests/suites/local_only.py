"""Tests of the space suite that are for a store in this process, each group with its reason."""

# By reason; a name that the suite does not have fails test_remote_space.py.
LOCAL: dict[str, tuple[str, ...]] = {
    "a backup is a file of the server's machine": (
        "test_a_backup_beside_a_writer_is_one_committed_version",
        "test_a_backup_carries_reserved_spaces",
        "test_a_backup_carries_vectors",
        "test_a_backup_goes_on_by_itself",
        "test_a_backup_has_the_same_line",
        "test_a_backup_holds_every_space_with_its_whole_history",
        "test_a_backup_holds_the_blobs",
        "test_a_backup_made_afterwards_holds_nothing_of_it",
        "test_a_backup_overwrites_nothing",
        "test_a_backup_proves_its_checkpoints_and_cannot_sign_without_the_key",
        "test_no_row_and_no_byte_of_an_erased_space_is_left",
    ),
    "private keys are the server's": (
        "test_a_checkpoint_of_another_log_is_refused",
        "test_a_checkpoint_that_only_the_target_made_stays",
        "test_a_copy_is_taken_over_as_it_is_and_governed_from_then_on",
        "test_a_given_seed_makes_the_next_space_and_only_that",
        "test_checkpoints_that_both_made_of_a_version_do_not_stop_a_copy",
        "test_the_key_of_another_space_is_refused",
        "test_a_target_that_uses_the_name_for_another_space_is_refused",
        "test_the_private_key_is_copied_only_on_demand",
    ),
    "reserved spaces, and who is the author, are the server's": (
        "test_a_reserved_name_is_refused_whether_there_is_such_a_space",
        "test_a_reserved_space_is_neither_erased_nor_adopted_nor_copied",
        "test_a_reserved_space_is_refused_by_did_too_also_when_it_is_open",
        "test_a_reserved_space_verifies_and_takes_no_part_in_runs_and_receipts",
        "test_the_library_sees_its_own_spaces_and_no_others",
        "test_who_asks_is_the_author_of_every_write",
    ),
    "a server says by itself on which fact a write relies, and which path is seen": (
        "test_a_conflict_names_the_newest_fact",
        "test_a_fact_counts_on_its_own_branch",
        "test_a_query_within_a_path_shows_nothing_beyond_it",
        "test_a_repeated_write_is_answered_though_the_fact_is_old",
        "test_an_entity_that_was_never_written_has_version_0",
        "test_deleted_and_erased_entities_have_another_newest_fact",
        "test_every_write_without_reads_may_rely_on_one_fact",
    ),
    "a server keeps the ACL whole": (
        "test_an_acl_that_cannot_be_read_is_set_whole_again",
        "test_other_ways_to_name_entities_are_refused",
    ),
    "a server shows no rows of attempts, and writes none of the kernel's kinds": (
        "test_a_guard_on_a_row_of_the_kernel_is_refused",
        "test_a_guarded_commit_may_use_the_reserved_keys",
        "test_a_key_that_stands_for_something_else_aborts_for_good",
        "test_an_erasure_drops_the_digest_of_a_merge_and_its_resolutions",
        "test_an_erasure_drops_the_digests_below_the_horizon",
        "test_an_erasure_drops_the_digests_of_what_wrote_the_entity",
        "test_callers_write_no_rows_of_attempts",
        "test_a_copy_from_before_keeps_it_until_it_is_continued",
        "test_gc_drops_attempts_after_a_week_and_not_before",
        "test_its_side_row_is_the_kernels_own",
        "test_kinds_of_the_kernel_and_empty_names_are_refused",
        "test_the_rows_of_attempts_are_as_documented",
    ),
    "a server takes receipts of the form that rote.receipt gives them": (
        "test_side_rows_that_are_no_receipts_are_in_no_erasures_way",
    ),
    "rows are dropped many at once by the server alone": (
        "test_many_side_rows_are_dropped_at_once_and_those_that_moved_stay",
    ),
    "an upload waits in the client until it is put": (
        "test_a_blob_that_is_put_twice_may_have_lost_its_upload",
        "test_an_upload_that_was_given_up_is_collected_and_cannot_go_on",
        "test_pieces_and_side_rows_for_an_erased_space_are_refused",
    ),
    "it looks at the commands of a verb, which a server answers whole": (
        "test_a_state_that_is_compacted_away_meanwhile_is_left_for_the_next",
        "test_an_update_is_tried_again_when_others_write",
    ),
    "it plants an error that no store raises, and a server tells of it as of a bug": (
        "test_what_a_failure_has_left_is_finished_by_a_collection_of_another_space",
    ),
}
