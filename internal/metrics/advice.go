package metrics

// Advice says of each metric what to do about it, in the words of docs/metrics.md:
// when it is worth a look, what it then means, and what helps. Every metric of
// chronik has an entry; one that only describes has an empty one.
func Advice() map[string]string {
	all := make(map[string]string)
	for _, part := range []map[string]string{commitAdvice(), dirAdvice(), cleanupAdvice(), requestAdvice(), partitionAdvice()} {
		for name, text := range part {
			all[name] = text
		}
	}
	return all
}

func commitAdvice() map[string]string {
	return map[string]string{
		nameGroupRecords:  "Few records for each sync, and `chronik_commit_group_sync_seconds` large: a profile that waits for company (`medium`, `high`) gives more throughput.",
		nameGroupBytes:    "",
		nameGroupSync:     "The disk decides what `sync` costs. Above 10 ms at the median: a faster disk for `journal.dirs`, or a profile that groups more. A rising tail: something else writes to that disk.",
		nameCommitWait:    "What producers wait for. Much above the sync time: the journal is full (`chronik_journal_bytes` near its limit) or the profile's wait is long.",
		nameJournalBytes:  "Near `chronik_journal_limit_bytes`: segments are written more slowly than the journal, so that commits wait for sweeps. A faster disk for `log.dirs`, or fewer bytes.",
		nameJournalLimit:  "",
		nameDeferredBytes: "Stays high: segments can't be written as fast as records come; produce is about to wait for memory. Look at the disk of `log.dirs`.",
		nameCachedBytes:   "",
	}
}

func dirAdvice() map[string]string {
	return map[string]string{
		nameDirOnline:       "0: the directory could not be opened at the start, or its journal failed and is being reopened; its partitions refuse records. The log and `/readyz` have the reason. Look at the disk.",
		nameOpenFiles:       "",
		nameDirFree:         "Approaches `chronik_log_dir_min_free_bytes`: shorten retention, delete topics or records, or enlarge the disk before producers are stopped.",
		nameDirMinFree:      "",
		nameDirLowSpace:     "1: clients' records are refused, 2: all are. Make space: retention, `kafka-delete-records`, deletion of topics, a larger disk. It goes back to 0 by itself at the threshold and a tenth.",
		nameDirCapacity:     "",
		nameJournalFree:     "With a disk of its own for the journal: less than the journal's limit less its bytes means that it may come to a stand; enlarge that disk.",
		nameLowSpaceRefused: "Grows: producers are being held back because of `chronik_log_dir_low_space`. They repeat until their delivery timeout.",
		nameJournalErrors:   "Any: the disk of the journal returns errors. Look at the kernel's log; replace the disk. What was acknowledged is safe as the profile says.",
		nameSegmentErrors:   "Any: the disk of the segments returns errors, or stored bytes are damaged; the log names file and partition.",
		nameOffline:         "Not 0: these partitions neither take nor give records. The log and `/v1/logs` say why; a restart tries those again that an error of the system took offline.",
		nameSweeps:          "",
		nameRolls:           "Many for what is written: segments are small (`segment.bytes`, `segment.ms`), which costs open files and start time.",
		nameTruncations:     "Grows at a start: what had not become durable before a crash was cut. With synced profiles nothing acknowledged is in it.",
		nameRecoveryFrames:  "Moves while a start reads the journal: the start is not hanging.",
		nameRecoveryBytes:   "",
		nameRecoverySecs:    "Long: stops were not clean, or the journal's limit is large for this disk.",
		nameCacheReads:      "Much from disk: consumers lag so far behind that memory doesn't hold what they read. No fault; more memory for the system's cache helps.",
	}
}

func cleanupAdvice() map[string]string {
	return map[string]string{
		nameRemovedSegments: "Shows which rule takes segments: time, size, start (DeleteRecords), compact. The log has a line for each with the numbers that decided it.",
		nameRemovedBytes:    "",
		nameDeletedBytes:    "Stays high: files wait for `file.delete.delay.ms`, or can't be removed; the log says which.",
		nameCleanerPasses:   "Doesn't grow while `chronik_cleaner_max_dirty_ratio` is above the topics' `min.cleanable.dirty.ratio`: look at failures, and at the throttle `log.cleaner.io.max.bytes.per.second`.",
		nameCleanerFailures: "Grows: the log names the partition and the error. That partition grows until it is mended; the others are compacted.",
		nameCleanerRead:     "",
		nameCleanerWritten:  "Nearly as much as is read: passes find little to take away; a larger `min.cleanable.dirty.ratio` saves work.",
		nameCleanerRecords:  "",
		nameCleanerLastRun:  "Long ago with a high `chronik_cleaner_max_dirty_ratio`: as above.",
		nameCleanerLastSecs: "Long: raise `log.cleaner.io.max.bytes.per.second`, or `log.cleaner.dedupe.buffer.size` where a log needs several passes.",
		nameCleanerMaxDirty: "Stays above the topics' `min.cleanable.dirty.ratio`: compaction doesn't keep up; see the passes and the throttle.",
		nameCleanerStopped:  "Not 0: these partitions are not compacted and grow; the log names them and the error.",
		nameCleanerMap:      "",
	}
}

func requestAdvice() map[string]string {
	return map[string]string{
		nameRequests: "Errors other than NONE that grow: NOT_LEADER and UNKNOWN_TOPIC of a restart pass; KAFKA_STORAGE_ERROR is a disk; REQUEST_TIMED_OUT is a slow one.",
		nameRequestSeconds: "Produce: see `chronik_commit_wait_seconds`. Fetch waits up to the consumer's `fetch.max.wait.ms` when there is nothing new; that is no fault. Anything else above 100 ms: " +
			"the processors or the disk of the metadata are busy.",
		nameSendSeconds: "Long: clients read slowly, or an earlier answer of the connection isn't ready.",
		nameThrottled:   "Quotas ask clients to wait.",
		nameConnections: "Grows without end: clients open connections and don't close them; see `max.connections.per.ip`.",
		nameAccepted:    "Many for the number that is open: clients reconnect in a loop; look at `chronik_connections_closed_total` by reason.",
		nameRefused:     "By reason: `total` and `per_ip` are the settings `max.connections…`; `files` is the limit of open files (LimitNOFILE).",
		nameClosed:      "`slow_reader`: a client does not read its answers; `lagging`: a large request came too slowly while others waited for its memory; `bad_frame`: something that is no Kafka client; `idle` is normal.",
		nameBytesIn:     "",
		nameBytesOut:    "",
		nameBudgetUsed:  "`produce` at its limit: producers send more than the disk takes and are held back; `produce.profile` chooses the limit. `produce_arriving` or `other_arriving` at it: many large requests arrive slowly. `answers` near it: clients ask for more than they read, and get shorter answers. `unread_answers` over it: the slowest of them lose their connection. `parked` near it: fetches and joins that wait hold too much; fetches are answered at once and their connections throttled. `members` at it: no more members get into groups (COORDINATOR_LOAD_IN_PROGRESS); they have more to say of themselves than the memory allows.",
		nameBudgetLimit: "",
		nameBudgetWaits: "Grows: the same.",
	}
}

func partitionAdvice() map[string]string {
	return map[string]string{
		nameLogSize:         "Unexpectedly large: `/v1/logs?topic=…` says why the oldest segment is still there.",
		nameLogsSize:        "",
		nameLogStart:        "",
		nameLogEnd:          "Its rate is the records per second of a partition.",
		nameLed:             "",
		nameUnderReplicated: "Not 0 for long: a follower is down or too slow.",
		nameUnderMinISR:     "Not 0: producers with acks=all get NOT_ENOUGH_REPLICAS. Bring the followers back.",
		nameUnavailable:     "Not 0: these partitions can't be used here. `/v1/logs` has the reason.",
		nameDamaged:         "Not 0: records cannot be read. `chronikctl cluster health` names the offsets, and the next ones that can be read.",
		nameUnmade:          "Not 0: what keeps these logs from being made is in `/readyz` and `chronikctl doctor`; they are made when it is gone.",
		nameTopics:          "",
		namePartitions:      "Ten thousand cost a scrape about a tenth of a second; `metrics.partitions=false` leaves only sums.",
		nameGroups:          "`PreparingRebalance` that stays: a member doesn't come back from its work in time.",
		nameGroupShards:     "Not `active` for long: the log says why a shard can't be loaded.",
		nameGroupLag:        "Grows: consumers are slower than producers, or don't commit.",
		nameGroupTopicLag:   "The same.",
		nameGroupLagOmitted: "Not 0: more lags than are shown; ask `kafka-consumer-groups` for those.",
		nameBuild:           "",
		nameReady:           "0: `/readyz` says why.",
		nameFindings:        "`bad` or `warn` is not 0: `chronikctl doctor` says what, where and what to do ([operations.md](operations.md) has the checks). `note` is what somebody should know once.",
	}
}
