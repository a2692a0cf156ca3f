package metrics

// The metric names. All of them are part of what an operator relies on: a name
// or a label is changed as carefully as a config's.
const (
	nameGroupRecords   = "chronik_commit_group_records"
	nameGroupBytes     = "chronik_commit_group_bytes"
	nameGroupSync      = "chronik_commit_group_sync_seconds"
	nameCommitWait     = "chronik_commit_wait_seconds"
	nameJournalBytes   = "chronik_journal_bytes"
	nameJournalLimit   = "chronik_journal_limit_bytes"
	nameDeferredBytes  = "chronik_deferred_bytes"
	nameDirOnline      = "chronik_log_dir_online"
	nameCachedBytes    = "chronik_cached_bytes"
	nameOpenFiles      = "chronik_open_segment_files"
	nameDirFree        = "chronik_log_dir_free_bytes"
	nameJournalErrors  = "chronik_journal_errors_total"
	nameSegmentErrors  = "chronik_segment_errors_total"
	nameSweeps         = "chronik_checkpoint_sweeps_total"
	nameRolls          = "chronik_segment_rolls_total"
	nameTruncations    = "chronik_recovery_truncated_bytes_total"
	nameRecoveryFrames = "chronik_recovery_frames_total"
	nameRecoveryBytes  = "chronik_recovery_bytes_total"
	nameRecoverySecs   = "chronik_recovery_seconds"
	nameCacheReads     = "chronik_log_reads_total"
	nameOffline        = "chronik_partitions_offline"

	nameRequests       = "chronik_requests_total"
	nameRequestSeconds = "chronik_request_seconds"
	nameThrottled      = "chronik_request_throttle_seconds_total"

	nameConnections = "chronik_connections"
	nameAccepted    = "chronik_connections_accepted_total"
	nameRefused     = "chronik_connections_refused_total"
	nameClosed      = "chronik_connections_closed_total"
	nameBytesIn     = "chronik_network_bytes_in_total"
	nameBytesOut    = "chronik_network_bytes_out_total"
	nameBudgetUsed  = "chronik_budget_used_bytes"
	nameBudgetLimit = "chronik_budget_limit_bytes"
	nameBudgetWaits = "chronik_budget_waits_total"

	nameLogSize    = "chronik_log_size_bytes"
	nameLogStart   = "chronik_log_start_offset"
	nameLogEnd     = "chronik_log_end_offset"
	nameTopics     = "chronik_topics"
	namePartitions = "chronik_partitions"

	nameGroups          = "chronik_groups"
	nameGroupShards     = "chronik_group_coordinator_shards"
	nameGroupLag        = "chronik_group_lag_records"
	nameGroupLagOmitted = "chronik_group_lag_omitted"

	nameBuild = "chronik_build_info"
	nameReady = "chronik_ready"
)
