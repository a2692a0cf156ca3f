package broker

// apis lists every API that has a handler; each line is declared in the file named
// after it, those of members of groups in groups.go. What is not here is neither
// advertised nor dispatched.
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
