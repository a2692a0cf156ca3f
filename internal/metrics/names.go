package metrics

// The metric names. Operators rely on all of them: a name or a label is changed as carefully as the
// name of a config. The comments that are followed by names are the headings of docs/metrics.md.
const (
	// How records become durable
	nameGroupRecords  = "chronik_commit_group_records"
	nameGroupBytes    = "chronik_commit_group_bytes"
	nameGroupSync     = "chronik_commit_group_sync_seconds"
	nameCommitWait    = "chronik_commit_wait_seconds"
	nameJournalBytes  = "chronik_journal_bytes"
	nameJournalLimit  = "chronik_journal_limit_bytes"
	nameDeferredBytes = "chronik_deferred_bytes"

	// Log directories and the disk guard
	nameDirOnline       = "chronik_log_dir_online"
	nameCachedBytes     = "chronik_cached_bytes"
	nameOpenFiles       = "chronik_open_segment_files"
	nameDirFree         = "chronik_log_dir_free_bytes"
	nameDirMinFree      = "chronik_log_dir_min_free_bytes"
	nameDirLowSpace     = "chronik_log_dir_low_space"
	nameDirCapacity     = "chronik_log_dir_capacity_bytes"
	nameDirArriving     = "chronik_log_dir_arriving_bytes"
	nameJournalFree     = "chronik_journal_dir_free_bytes"
	nameLowSpaceRefused = "chronik_low_space_refused_total"
	nameJournalErrors   = "chronik_journal_errors_total"
	nameScrubBytes      = "chronik_scrub_read_bytes_total"
	nameScrubOldest     = "chronik_scrub_oldest_seconds"
	nameSegmentErrors   = "chronik_segment_errors_total"
	nameOffline         = "chronik_partitions_offline"
	nameSweeps          = "chronik_checkpoint_sweeps_total"
	nameRolls           = "chronik_segment_rolls_total"

	// Recovery at startup
	nameTruncations    = "chronik_recovery_truncated_bytes_total"
	nameRecoveryFrames = "chronik_recovery_frames_total"
	nameRecoveryBytes  = "chronik_recovery_bytes_total"
	nameRecoverySecs   = "chronik_recovery_seconds"

	// Reads
	nameCacheReads = "chronik_log_reads_total"

	// Retention
	nameRemovedSegments = "chronik_segments_removed_total"
	nameRemovedBytes    = "chronik_segments_removed_bytes_total"
	nameDeletedBytes    = "chronik_deleted_segments_waiting_bytes"

	// Compaction
	nameCleanerPasses   = "chronik_cleaner_passes_total"
	nameCleanerFailures = "chronik_cleaner_failures_total"
	nameCleanerRead     = "chronik_cleaner_read_bytes_total"
	nameCleanerWritten  = "chronik_cleaner_written_bytes_total"
	nameCleanerRecords  = "chronik_cleaner_removed_records_total"
	nameCleanerLastRun  = "chronik_cleaner_last_run_timestamp_seconds"
	nameCleanerLastSecs = "chronik_cleaner_last_run_seconds"
	nameCleanerMaxDirty = "chronik_cleaner_max_dirty_ratio"
	nameCleanerStopped  = "chronik_cleaner_stopped_partitions"
	nameCleanerMap      = "chronik_cleaner_map_bytes"

	// Requests
	nameRequests       = "chronik_requests_total"
	nameRequestSeconds = "chronik_request_seconds"
	nameSendSeconds    = "chronik_response_send_seconds"
	nameThrottled      = "chronik_request_throttle_seconds_total"

	// Connections and memory
	nameConnections     = "chronik_connections"
	nameAccepted        = "chronik_connections_accepted_total"
	nameRefused         = "chronik_connections_refused_total"
	nameClosed          = "chronik_connections_closed_total"
	nameBytesIn         = "chronik_network_bytes_in_total"
	nameBytesOut        = "chronik_network_bytes_out_total"
	nameHandshakes      = "chronik_tls_handshakes_total"
	nameLogins          = "chronik_logins_total"
	nameUnauthenticated = "chronik_connections_unauthenticated"
	nameLoginsDelayed   = "chronik_logins_delayed"
	namePlaces          = "chronik_places"
	namePlacesWaiting   = "chronik_places_waiting"
	namePlacesSeconds   = "chronik_places_seconds_total"
	nameQuotaWaited     = "chronik_quota_throttle_seconds_total"
	nameQuotaDebt       = "chronik_quota_debt_seconds"
	nameBudgetUsed      = "chronik_budget_used_bytes"
	nameBudgetLimit     = "chronik_budget_limit_bytes"
	nameBudgetWaits     = "chronik_budget_waits_total"

	// Partitions
	nameLogSize         = "chronik_log_size_bytes"
	nameLogsSize        = "chronik_logs_size_bytes"
	nameLogStart        = "chronik_log_start_offset"
	nameLogEnd          = "chronik_log_end_offset"
	nameLed             = "chronik_partitions_led"
	nameUnderReplicated = "chronik_partitions_under_replicated"
	nameUnderMinISR     = "chronik_partitions_under_min_isr"
	nameUnavailable     = "chronik_partitions_unavailable"
	nameDamaged         = "chronik_partitions_damaged"
	nameFailed          = "chronik_partitions_failed"
	nameTopics          = "chronik_topics"
	namePartitions      = "chronik_partitions"

	// Requests that are passed to other brokers
	nameForwarded      = "chronik_forwarded_requests_total"
	nameForwardTunnels = "chronik_forward_tunnels"

	// Members of a cluster
	nameMetaTerm    = "chronik_metadata_term"
	nameMetaCommit  = "chronik_metadata_commit_index"
	nameMetaApplied = "chronik_metadata_applied_revision"
	nameMetaLeader  = "chronik_metadata_leader"
	nameLeaseAge    = "chronik_lease_age_seconds"
	nameBrokers     = "chronik_brokers"
	nameLeaderless  = "chronik_partitions_without_leader"
	nameISRSize     = "chronik_isr_size"
	nameEligible    = "chronik_partitions_with_elr"
	nameElections   = "chronik_elections_total"
	nameISRChanges  = "chronik_isr_changes_total"
	nameMoving      = "chronik_partitions_reassigning"
	nameHasLeader   = "chronik_metadata_leader_known"
	nameVoters      = "chronik_metadata_voters"
	nameSkew        = "chronik_clock_skew_seconds"
	nameLagRecords  = "chronik_replica_lag_records"
	nameLagSeconds  = "chronik_replica_lag_seconds"
	nameStopped     = "chronik_replicas_stopped"
	nameStreamConns = "chronik_stream_connections_total"
	nameStreamFrame = "chronik_stream_frames_total"
	nameStreamBytes = "chronik_stream_bytes_total"
	nameStreamWaits = "chronik_stream_window_waits_total"
	nameTruncated   = "chronik_truncated_records_total"
	nameRefusedCuts = "chronik_refused_truncations_total"

	// Consumer groups
	nameGroups          = "chronik_groups"
	nameGroupShards     = "chronik_group_coordinator_shards"
	nameGroupLag        = "chronik_group_lag_records"
	nameGroupTopicLag   = "chronik_group_topic_lag_records"
	nameGroupLagOmitted = "chronik_group_lag_omitted"

	// Metrics of clients
	nameClientInstances      = "chronik_client_instances"
	nameClientMetric         = "chronik_client_metric"
	nameClientMetricTotal    = "chronik_client_metric_total"
	nameClientMetricsOmitted = "chronik_client_metrics_omitted_total"

	// Transactions
	nameTxnIDs            = "chronik_txn_ids"
	nameTxnIDsCrowded     = "chronik_txn_ids_crowded_total"
	nameTxnShards         = "chronik_txn_coordinator_shards"
	nameTxnMarkersWaiting = "chronik_txn_markers_waiting"
	nameTxnParked         = "chronik_txn_parked_requests"
	nameTxnUndone         = "chronik_txn_undone"
	nameTxnUndoneSeconds  = "chronik_txn_undone_seconds"
	nameTxnGateWaiting    = "chronik_txn_gate_waiting"
	nameTxnEnded          = "chronik_txn_ended_total"
	nameTxnDuration       = "chronik_txn_duration_seconds"
	nameTxnMarkerSeconds  = "chronik_txn_marker_seconds"
	nameTxnMarkerRetries  = "chronik_txn_marker_retries_total"
	nameTxnRaised         = "chronik_txn_coordinator_raised_total"
	nameTxnMaxTimeout     = "chronik_txn_max_timeout_seconds"
	nameTxnOpen           = "chronik_txn_open"
	nameLSOLag            = "chronik_partition_lso_lag_records"
	nameLSOAge            = "chronik_partition_lso_age_seconds"
	nameLSOAgeMax         = "chronik_lso_age_max_seconds"

	// The process
	nameBuild        = "chronik_build_info"
	nameReady        = "chronik_ready"
	nameFindings     = "chronik_findings"
	nameReported     = "chronik_broker_findings"
	nameReportAge    = "chronik_broker_report_age_seconds"
	nameExpiry       = "chronik_certificate_expiry_seconds"
	nameKeysAge      = "chronik_token_keys_age_seconds"
	nameKeysFailed   = "chronik_token_keys_failed"
	nameAuditLines   = "chronik_audit_lines_total"
	nameAuditCounted = "chronik_audit_events_counted_total"
)
