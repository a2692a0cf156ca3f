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
		saslHandshakeAPI(),
		apiVersionsAPI(),
		createTopicsAPI(),
		deleteTopicsAPI(),
		deleteRecordsAPI(),
		initProducerIDAPI(),
		addPartitionsToTxnAPI(),
		addOffsetsToTxnAPI(),
		endTxnAPI(),
		writeTxnMarkersAPI(),
		txnOffsetCommitAPI(),
		describeACLsAPI(),
		createACLsAPI(),
		deleteACLsAPI(),
		describeConfigsAPI(),
		alterConfigsAPI(),
		alterReplicaLogDirsAPI(),
		describeLogDirsAPI(),
		saslAuthenticateAPI(),
		createPartitionsAPI(),
		deleteGroupsAPI(),
		electLeadersAPI(),
		incrementalAlterConfigsAPI(),
		alterPartitionReassignmentsAPI(),
		listPartitionReassignmentsAPI(),
		offsetDeleteAPI(),
		describeQuorumAPI(),
		describeClientQuotasAPI(),
		alterClientQuotasAPI(),
		describeUserScramCredentialsAPI(),
		alterUserScramCredentialsAPI(),
		updateFeaturesAPI(),
		describeClusterAPI(),
		describeProducersAPI(),
		unregisterBrokerAPI(),
		describeTransactionsAPI(),
		listTransactionsAPI(),
		consumerGroupHeartbeatAPI(),
		consumerGroupDescribeAPI(),
		streamsGroupHeartbeatAPI(),
		streamsGroupDescribeAPI(),
		getTelemetrySubscriptionsAPI(),
		pushTelemetryAPI(),
		listConfigResourcesAPI(),
		describeTopicPartitionsAPI(),
	}
}

// previewed lists the APIs of features that are not complete (share groups). Only tests offer them,
// with Options.Preview.
func previewed() []api {
	return []api{
		shareGroupHeartbeatAPI(),
		shareGroupDescribeAPI(),
		shareFetchAPI(),
		shareAcknowledgeAPI(),
		initializeShareGroupStateAPI(),
		readShareGroupStateAPI(),
		writeShareGroupStateAPI(),
		deleteShareGroupStateAPI(),
		readShareGroupStateSummaryAPI(),
	}
}

// offered lists the APIs that a broker serves.
func offered(preview bool) []api {
	if preview {
		return append(apis(), previewed()...)
	}
	return apis()
}
