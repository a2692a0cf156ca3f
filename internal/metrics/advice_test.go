package metrics

// advice returns, for each metric in docs/metrics.md, when an operator should act, what the value
// means, and what helps. Every metric of chronik has an entry; it is empty for a purely descriptive
// metric.
func advice() map[string]string {
	all := make(map[string]string)
	for _, part := range []map[string]string{commitAdvice(), dirAdvice(), cleanupAdvice(), requestAdvice(), partitionAdvice(),
		clusterAdvice()} {
		for name, text := range part {
			all[name] = text
		}
	}
	return all
}

func commitAdvice() map[string]string {
	return map[string]string{
		nameGroupRecords:  "Few records per sync and a large `chronik_commit_group_sync_seconds`: a profile that waits for more records (`medium`, `high`) gives more throughput.",
		nameGroupBytes:    "",
		nameGroupSync:     "The disk determines the cost of `sync`. Median above 10 ms: use a faster disk for `journal.dirs`, or a profile with larger groups. Growing tail: something else writes to that disk.",
		nameCommitWait:    "This is how long producers wait. Much above the sync time: the journal is full (`chronik_journal_bytes` near its limit), or the profile's wait is long.",
		nameJournalBytes:  "Near `chronik_journal_limit_bytes`: segments are written more slowly than the journal, so commits wait for sweeps. Use a faster disk for `log.dirs`, or write fewer bytes.",
		nameJournalLimit:  "",
		nameDeferredBytes: "Stays high: segments are written more slowly than records arrive, and produce requests will soon wait for memory. Check the disk of `log.dirs`.",
		nameCachedBytes:   "",
	}
}

func dirAdvice() map[string]string {
	return map[string]string{
		nameDirOnline:       "0: the directory could not be opened at startup, its journal failed and is being reopened, or its journal has no space. Its partitions reject records. The log and `/readyz` report the reason. Check the disk. The series begins after recovery.",
		nameOpenFiles:       "",
		nameDirFree:         "Approaches `chronik_log_dir_min_free_bytes`: shorten retention, delete topics or records, or enlarge the disk before producers are stopped.",
		nameDirMinFree:      "",
		nameDirLowSpace:     "1: records of clients are rejected. 2: all records are rejected. Free space: shorten retention, run `chronikctl topic trim`, delete topics, or enlarge the disk. The value returns to 0 automatically at 110 % of the threshold.",
		nameDirCapacity:     "",
		nameDirArriving:     "Does not fall while logs move to the directory: `chronikctl cluster health` says why they stand still, or `replica.alter.log.dirs.io.max.bytes.per.second` is low.",
		nameJournalFree:     "If the journal has its own disk: less than `chronik_journal_limit_bytes` minus `chronik_journal_bytes` means that the journal may run out of space; enlarge that disk.",
		nameLowSpaceRefused: "Grows: producers are held back because of `chronik_log_dir_low_space`. They retry until their delivery timeout.",
		nameJournalErrors:   "Any increase: the disk of the journal returns errors. Check the kernel's log and replace the disk. Acknowledged records are as safe as their profile guarantees.",
		nameSegmentErrors:   "Any increase: the disk of the segments returns errors, or stored bytes are damaged; the log names the file and the partition.",
		nameScrubBytes:      "",
		nameScrubOldest:     "Above twice `chronik.log.scrub.interval.ms`: the disk is too busy to read all segments, or a segment cannot be read, which the log reports. Damage is then found late.",
		nameOffline:         "Not 0: these partitions accept and return no records. The log and `/v1/logs` report the reason. A restart retries partitions that a system error took offline.",
		nameSweeps:          "",
		nameRolls:           "Many, compared with the bytes written: segments are small (`segment.bytes`, `segment.ms`), which costs open files and start time.",
		nameTruncations:     "Grows at startup: recovery truncated bytes that were not durable before a crash. With synced profiles none of them was acknowledged.",
		nameRecoveryFrames:  "Grows while recovery reads the journal: the start does not hang.",
		nameRecoveryBytes:   "",
		nameRecoverySecs:    "Long: stops were not clean, or the journal's limit is large for this disk.",
		nameCacheReads:      "Many from disk: consumers lag so far behind that their records are no longer in memory. This is not a fault; more memory for the page cache helps.",
	}
}

func cleanupAdvice() map[string]string {
	return map[string]string{
		nameRemovedSegments: "Shows which rule removes segments: time, size, start (DeleteRecords), compact. The log has a line for each segment with the numbers behind the decision.",
		nameRemovedBytes:    "",
		nameDeletedBytes:    "Stays high: files wait for `file.delete.delay.ms`, or cannot be deleted; the log names them.",
		nameCleanerPasses:   "Does not grow while `chronik_cleaner_max_dirty_ratio` is above the topics' `min.cleanable.dirty.ratio`: check `chronik_cleaner_failures_total`, and the limit `log.cleaner.io.max.bytes.per.second`.",
		nameCleanerFailures: "Grows: the log names the partition and the error. That partition grows until the cause is repaired; the others are compacted.",
		nameCleanerRead:     "",
		nameCleanerWritten:  "Nearly as much as `chronik_cleaner_read_bytes_total`: passes find little to remove; a larger `min.cleanable.dirty.ratio` saves work.",
		nameCleanerRecords:  "",
		nameCleanerLastRun:  "Long ago, with a high `chronik_cleaner_max_dirty_ratio`: see `chronik_cleaner_passes_total`.",
		nameCleanerLastSecs: "Long: raise `log.cleaner.io.max.bytes.per.second`, or `log.cleaner.dedupe.buffer.size` if a log needs several passes.",
		nameCleanerMaxDirty: "Stays above the topics' `min.cleanable.dirty.ratio`: compaction does not keep up; see `chronik_cleaner_passes_total`.",
		nameCleanerStopped:  "Not 0: these partitions are not compacted and grow; the log names them and the error.",
		nameCleanerMap:      "",
	}
}

func requestAdvice() map[string]string {
	return map[string]string{
		nameRequests: "A growing error other than NONE: NOT_LEADER and UNKNOWN_TOPIC during a restart are transient; KAFKA_STORAGE_ERROR means a failed disk, REQUEST_TIMED_OUT a slow one.",
		nameRequestSeconds: "Produce: see `chronik_commit_wait_seconds`. Fetch waits up to the consumer's `fetch.max.wait.ms` if there is nothing new; this is not a fault. Any other API above 100 ms: " +
			"the processors or the metadata disk are busy.",
		nameSendSeconds: "Long: clients read slowly, or an earlier response on the connection is not ready.",
		nameThrottled:   "Fetch grows: the budget `parked` is full; see [Byte budgets](#byte-budgets).",
		nameConnections: "Grows without bound: clients open connections and do not close them; see `max.connections.per.ip`.",
		nameAccepted: "Many, compared with the open connections: clients reconnect in a loop; " +
			"check `chronik_connections_closed_total` by reason.",
		nameRefused: "By reason: `total`, `listener` and `per_ip` are the settings `max.connections…`; " +
			"`files` is the limit of open files (LimitNOFILE).",
		nameClosed:          "`slow_reader`: a client does not read its responses. `lagging`: a large request arrived too slowly while others waited for its memory. `bad_frame`: the peer is not a Kafka client. `idle` is normal. `handshake` and `login`: see `chronik_tls_handshakes_total` and `chronik_logins_total`. `expired`: a client does not log in again before its session ends.",
		nameHandshakes:      "By result: `plain_text`: a client without TLS. `certificate`: a client without one that an authority in `tls.client-ca` signed. `principal`: no rule in `tls.principal-rules` fits. `client_refused`: the client does not trust this broker's. `late`, `broken`: the network, or a client that is overloaded. The log has the address and the remedy.",
		nameLogins:          "`failed` grows: wrong passwords, or attempts to guess them; the log has the addresses. `again` are the logins of KIP-368.",
		nameUnauthenticated: "Near `max.connections.unauthenticated`: clients connect and do not log in; `chronik_connections_refused_total` counts those that are refused.",
		namePlaces:          "",
		namePlacesWaiting:   "Not 0 for long: work of this class waits for others. `chronik_places_seconds_total` tells which class has the processors. `logins`: let clients keep their connections, and use ECDSA certificates. `batches`: see `compression.type`. `requests`: clients ask for many topics or partitions at once.",
		namePlacesSeconds:   "Its rate by class, compared with `chronik_places`: at `chronik_places`, the classes share half of the processors, and more of that work has to wait.",
		nameLoginsDelayed:   "Clients that failed to log in and wait for the answer, up to 5 s each.",
		nameBytesIn:         "",
		nameBytesOut:        "",
		nameQuotaWaited:     "Grows: the client is slowed down by its quota; see [Quotas](quotas.md).",
		nameQuotaDebt:       "Stays high: the client uses more than its quota; see [Quotas](quotas.md).",
		nameBudgetUsed:      "Near `chronik_budget_limit_bytes`: see [Byte budgets](#byte-budgets).",
		nameBudgetLimit:     "",
		nameBudgetWaits:     "Grows: see `chronik_budget_used_bytes`.",
	}
}

func partitionAdvice() map[string]string {
	return map[string]string{
		nameLogSize:           "Unexpectedly large: `/v1/logs?topic=…` reports why the oldest segment still exists.",
		nameLogsSize:          "",
		nameLogStart:          "",
		nameLogEnd:            "Its rate is the number of records per second of a partition.",
		nameLed:               "",
		nameUnderReplicated:   "Not 0 for long: a follower is down or too slow.",
		nameUnderMinISR:       "Not 0: producers with acks=all get NOT_ENOUGH_REPLICAS. Restore the followers.",
		nameUnavailable:       "Not 0: these partitions cannot be used on this broker. `/v1/logs` reports the reason.",
		nameDamaged:           "Not 0: some records cannot be read. `chronikctl cluster health` lists the damaged offsets, and the next readable ones.",
		nameFailed:            "Not 0: `/readyz` and `chronikctl cluster health` report why these logs cannot be created; the broker creates them when the cause is gone.",
		nameTopics:            "",
		namePartitions:        "With 10,000 partitions, a scrape takes about a tenth of a second; `metrics.partitions=false` leaves only sums.",
		nameGroups:            "`PreparingRebalance` that persists: a member does not return from its processing in time.",
		nameTxnIDs:            "`PrepareCommit` and `PrepareAbort` that persist: see `chronik_txn_undone`.",
		nameTxnIDsCrowded:     "Grows: an application makes a transactional id for each transaction; `removed` ones had none for at least 15 minutes. Otherwise raise `transactional.id.max.per.partition`.",
		nameTxnShards:         "Not `active` for long: the log reports why a shard cannot be loaded.",
		nameTxnMarkersWaiting: "Grows: the broker does not answer, or its disk is slow. Transactions with partitions there do not end.",
		nameTxnParked:         "",
		nameTxnUndone:         "Not 0: consumers with `read_committed` wait. `chronikctl cluster health` names the partitions and the cause.",
		nameTxnUndoneSeconds:  "See `chronik_txn_undone`.",
		nameTxnEnded:          "`timeout` grows: producers die, or hold transactions for longer than `transaction.timeout.ms`. `fenced` grows: two instances use one transactional id. `lost`: `__transaction_state` has lost records, and open transactions were aborted.",
		nameTxnDuration:       "Long transactions delay the readers of committed records.",
		nameTxnMarkerSeconds:  "Above 1 s: the disks or the brokers of the transaction's partitions are slow; see `chronik_commit_group_sync_seconds`.",
		nameTxnMarkerRetries:  "Grows: the error says what keeps transactions from their end: `KAFKA_STORAGE_ERROR` a disk, `NOT_ENOUGH_REPLICAS` replicas.",
		nameTxnRaised:         "Grows: metadata was restored from a copy, or `__transaction_state` was made again. The log names the partition.",
		nameTxnMaxTimeout:     "",
		nameTxnOpen:           "",
		nameLSOLag:            "Grows with `chronik_partition_lso_age_seconds`: readers of committed records wait for a transaction.",
		nameLSOAge:            "Above the transaction's timeout by a minute: `chronikctl txn find-hanging` shows whether it hangs, and the command that ends it.",
		nameLSOAgeMax:         "See `chronik_partition_lso_age_seconds`.",
		nameTxnGateWaiting:    "Stays high: coordinators do not answer, and producers wait. See `chronik_txn_coordinator_shards` of all brokers.",
		nameGroupShards:       "Not `active` for long: the log reports why a shard cannot be loaded.",
		nameGroupLag:          "Grows: consumers are slower than producers, or do not commit.",
		nameGroupTopicLag:     "See `chronik_group_lag_records`.",
		nameGroupLagOmitted:   "Not 0: some lags are not exported; `chronikctl group describe` shows those of a group.",
		nameShareSessions:     "Near `group.share.max.share.sessions`: further members get SHARE_SESSION_LIMIT_REACHED.",
		nameSharePartitions:   "`failed` is not 0: the finding names the share partitions. `loading` that persists: their coordinators do not answer.",
		nameShareLoads:        "Grows without elections: see `chronik_share_writes_refused_total`.",
		nameShareRefused:      "Grows: two brokers lead a partition, or offsets are altered while members read. The log names the share partition.",
		nameShareWriting:      "Above 5 s: nothing is acquired. The coordinators of `__share_group_state` or their disks do not answer.",
		nameShareFull:         "Grows: one record that no member finishes blocks a share partition. `chronikctl group describe` shows its start.",
		nameShareMembers:      "",
		nameShareRecords:      "`archiving` grows: dead letters cannot be copied.",
		nameShareDelivered:    "",
		nameShareRedelivered:  "Grows fast: members release records, or their locks end; see the next two.",
		nameShareTimedOut:     "Grows: members need more time than `share.record.lock.duration.ms`, or die.",
		nameShareAcknowledged: "`accept` and `reject` stand still while there is lag: the group is stuck.",
		nameShareCopied:       "",
		nameShareUncopied:     "Grows: see the next one.",
		nameShareFailing: "Above 30 s: these records wait, and at last their group. `reason` is `no_topic`, `not_enabled`, `compacted`, " +
			"`own_topic`, `name`, `configs`, or `other`: brokers do not answer. The finding says what to change.",
		nameShareArchived:        "Grows: members cannot process some records, which are lost for the group unless it has a topic for dead letters.",
		nameShareOmitted:         "Not 0: some groups are not exported; `chronikctl group describe` shows those of a group.",
		nameClientInstances:      "",
		nameClientMetric:         "",
		nameClientMetricTotal:    "",
		nameClientMetricsOmitted: "Grows: clients push more than is stored. Subscribe to fewer metrics, or of fewer clients.",
		nameBuild:                "",
		nameReady:                "0: `/readyz` reports the reason.",
		nameAuditLines:           "`dropped` grows: events are missing in the audit log, because its disk or the journal is full or slow.",
		nameAuditCounted:         "Grows fast: clients repeat what they may not do; the audit log says who, with the number `n`.",
		nameKeysAge:              "Above 600: the issuer's keys (oauth.jwks) cannot be read; the finding tokens says why.",
		nameKeysFailed:           "1: the finding tokens says why. Former keys stay in use, until the issuer changes them.",
		nameExpiry:               "Below 2592000 (30 days): replace the file; the broker reads it within a second.",
		nameReported:             "`bad` or `warn` is not 0: `chronikctl cluster health` has the findings. Add it up for one scraped broker only, since every broker exports it for all.",
		nameReportAge:            "Above 10: the broker is down or cut off from this one, so that its findings are unknown. 0 is the broker that is scraped.",
		nameFindings:             "`bad` or `warn` is not 0: `chronikctl cluster health` reports what is wrong, where, and what to do ([operations.md](operations.md) lists the checks). A `note` needs no action.",
	}
}

func clusterAdvice() map[string]string {
	return map[string]string{
		nameForwarded: "`lost` and `refused` grow while all brokers run: connections between brokers break, or cannot be made; " +
			"`chronikctl cluster health` names the broker. Clients repeat these requests.",
		nameForwardTunnels: "",

		nameSnapshots: "Falls to 0: there is nothing to restore.",
		nameSnapshotsDamaged: "Is not 0: objects in the store are missing or altered. `chronikctl snapshot list` shows which " +
			"snapshots cannot be restored; [ChronikSnapshotsDamaged](runbooks.md#chroniksnapshotsdamaged).",
		nameSnapshotInterval: "",
		nameSnapshotTime: "`time() -` it is more than a few intervals (`snapshot.interval.ms`): no snapshot is complete; " +
			"`chronikctl cluster health` says why. The interval itself is what a restore loses at most.",
		nameSnapshotTook:     "Comes near the interval: uploads are slow, or limited by `snapshot.bytes.per.second`.",
		nameSnapshotBytes:    "",
		nameSnapshotUploaded: "",

		nameTierPartitions: "",
		nameTierFailing: "Not 0 for minutes: `chronikctl cluster health` says why. Local disks keep what is not copied, and fill up; " +
			"see [tiered-storage.md](tiered-storage.md).",
		nameTierSize: "",
		nameTierLag: "Grows for hours: records arrive faster than they are copied. Raise `snapshot.bytes.per.second` if it is set, or " +
			"find out why the store is slow.",
		nameTierLagBytes: "Comes near the free space of the local disks: these keep such records whatever `local.retention.ms` and " +
			"`local.retention.bytes` say.",
		nameTierObjects:  "",
		nameTierCopied:   "Its rate is 0 while the lag is not: nothing is copied.",
		nameTierFailures: "Grows: see `chronik_tier_partitions_failing`.",
		nameTierRead:     "Much more than consumers receive: the cache is too small for the number of consumers that read old records.",
		nameTierReadFailures: "Grows: consumers of old records wait, or get KAFKA_STORAGE_ERROR. Check the store; a missing or damaged " +
			"object is an error of the store.",
		nameTierLookups: "The share of `miss` grows: raise `archive.cache.bytes`.",
		nameTierCached:  "",
		nameTierTransfers: "`waiting` is not 0 for long: eight transfers run, and the store is too slow for the consumers of old " +
			"records.",

		nameMetaTerm:    "Grows often: the metadata leader changes; its disk or the network between the brokers is too slow for `metadata.election.ms`.",
		nameMetaCommit:  "Differs between brokers for long: one of them does not receive the metadata.",
		nameMetaApplied: "Differs between brokers for long: one of them works with outdated metadata.",
		nameMetaLeader:  "The sum over all brokers is 0 for 10 s: there is no quorum. Start the brokers that are down, or repair the network between them.",
		nameLeaseAge:    "Above 2 s: the controller does not hear this broker, or the broker does not hear the controller. At `broker.session.timeout.ms` the broker is fenced.",
		nameBrokers:     "`fenced` is not 0: these brokers are down or cannot reach the controller; `chronikctl cluster describe` names them.",
		nameLeaderless:  "Not 0: nothing can be written to or read from these partitions; `chronikctl topic describe` reports why.",
		nameISRSize:     "Partitions with a small size lose their redundancy: a follower is down or too slow.",
		nameEligible:    "Not 0: fewer replicas than `min.insync.replicas` are in sync, and the high watermark stands still. Restore the followers.",
		nameHasLeader:   "0 for 10 s: the cluster has no metadata leader, or this broker cannot reach it; `chronikctl cluster health` names the voters that it cannot reach.",
		nameVoters:      "Less than the entries of `cluster.seeds`, or even: the metadata survive fewer failures.",
		nameSkew:        "More than 2 s in either direction: synchronize the clocks of the machines. Retention by time uses them.",
		nameMoving:      "Does not return to 0: a reassignment does not advance; `chronikctl topic move` lists them.",
		nameLagRecords:  "Does not fall: the follower copies more slowly than producers write, or not at all. Compare its disk and network with those of other brokers.",
		nameLagSeconds:  "At `replica.lag.time.max.ms` the follower leaves the ISR.",
		nameStopped:     "Not 0: `chronikctl cluster health` of this broker names the partitions, and what to do.",
		nameStreamConns: "Grows steadily: connections between brokers break; the log of this broker has the reasons.",
		nameStreamFrame: "Compare with the bytes: small frames mean many small produce requests.",
		nameStreamBytes: "The network and disk load of replication. `sent` is the sum for all followers.",
		nameStreamWaits: "Grows steadily: a follower writes more slowly than this broker sends. Its disk is the usual cause.",
		nameTruncated:   "Grows only after elections. These records were not acknowledged with `acks=all`, except after an unclean election.",
		nameRefusedCuts: "Not 0: a replica and its leader contradict each other; `chronikctl cluster health` of this broker names the partitions.",
		nameISRChanges:  "Grows all the time: followers leave and return. Their disks or the network are too slow for `replica.lag.time.max.ms`.",
		nameElections:   "`unclean` grows: acknowledged records may be lost; the brokers' logs name the partitions. The others grow when brokers stop, start or fail.",
	}
}
