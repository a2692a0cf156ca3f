package broker

import "slices"

// apis lists every API that has a handler, on a member of a cluster or on a single node. Each is
// declared in the file named after it, those of group members in groups.go. Other APIs are neither
// advertised nor dispatched.
func apis(member bool) []api {
	return slices.DeleteFunc(everyAPI(), func(a api) bool { return a.member && !member })
}

func everyAPI() []api {
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
