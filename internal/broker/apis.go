package broker

// apis lists every API that has a handler. Each is declared in the file named after it, those of
// group members in groups.go. Other APIs are neither advertised nor dispatched.
func apis() []api {
	return []api{
		produceAPI(),
		fetchAPI(),
		listOffsetsAPI(),
		offsetForLeaderEpochAPI(),
		metadataAPI(),
		offsetCommitAPI(),
		offsetFetchAPI(),
		findCoordinatorAPI(),
		joinGroupAPI(),
		heartbeatAPI(),
		leaveGroupAPI(),
		syncGroupAPI(),
		describeGroupsAPI(),
		listGroupsAPI(),
		apiVersionsAPI(),
		createTopicsAPI(),
		deleteTopicsAPI(),
		deleteRecordsAPI(),
		initProducerIDAPI(),
		describeConfigsAPI(),
		alterConfigsAPI(),
		describeLogDirsAPI(),
		createPartitionsAPI(),
		deleteGroupsAPI(),
		electLeadersAPI(),
		incrementalAlterConfigsAPI(),
		alterPartitionReassignmentsAPI(),
		listPartitionReassignmentsAPI(),
		offsetDeleteAPI(),
		describeClusterAPI(),
		consumerGroupHeartbeatAPI(),
		consumerGroupDescribeAPI(),
		listConfigResourcesAPI(),
		describeTopicPartitionsAPI(),
	}
}
