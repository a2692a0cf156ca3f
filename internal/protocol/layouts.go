package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// requestLayouts returns the layout of every request that the guard knows, by API key, in the
// language of layout.go. They are Kafka's message definitions without the names. A test fills each
// kmsg request at random, at each of its versions, and checks the encoding against its layout.
func requestLayouts() map[int16]string {
	layouts := map[kmsg.Key]string{
		kmsg.Produce: "3+:n 2 4 ( 0-12:s 13+:16 ( 4 N ) )",
		kmsg.Fetch: "0-14:4 4 4 3+:4 4+:1 7+:4 7+:4 " +
			"( 0-12:s 13+:16 ( 4 9+:4 8 12+:4 5+:8 4 ) ) 7+:( 0-12:s 13+:16 [4] ) 11+:s",
		kmsg.ListOffsets:                  "4 2+:1 ( s ( 4 4+:4 8 0:4 ) ) 10+:4",
		kmsg.Metadata:                     "( 10+:16 0-9:s 10+:n ) 4+:1 8-10:1 8+:1",
		kmsg.OffsetCommit:                 "s 1+:4 1+:s 7+:n 2-4:8 ( 0-9:s 10+:16 ( 4 8 1:8 6+:4 n ) )",
		kmsg.OffsetFetch:                  "0-7:s 0-7:( s [4] ) 8+:( s 9+:n 9+:4 ( 0-9:s 10+:16 [4] ) ) 7+:1",
		kmsg.FindCoordinator:              "0-3:s 1+:1 4+:[s]",
		kmsg.JoinGroup:                    "s 4 1+:4 s 5+:n s ( s b ) 8+:n",
		kmsg.Heartbeat:                    "s 4 s 3+:n",
		kmsg.LeaveGroup:                   "s 0-2:s 3+:( s n 5+:n )",
		kmsg.SyncGroup:                    "s 4 s 3+:n 5+:n 5+:n ( s b )",
		kmsg.DescribeGroups:               "[s] 3+:1",
		kmsg.ListGroups:                   "4+:[s] 5+:[s]",
		kmsg.SASLHandshake:                "s",
		kmsg.ApiVersions:                  "3+:s 3+:s 5+:n 5+:4",
		kmsg.CreateTopics:                 "( s 4 2 ( 4 [4] ) ( s n ) ) 4 1+:1",
		kmsg.DeleteTopics:                 "0-5:[s] 6+:( n 16 ) 4",
		kmsg.DeleteRecords:                "( s ( 4 8 ) ) 4",
		kmsg.InitProducerID:               "n 4 3+:8 3+:2 6+:1 6+:1",
		kmsg.AddPartitionsToTxn:           "0-3:s 0-3:8 0-3:2 0-3:( s [4] ) 4+:( s 8 2 1 ( s [4] ) )",
		kmsg.AddOffsetsToTxn:              "s 8 2 s",
		kmsg.EndTxn:                       "s 8 2 1",
		kmsg.WriteTxnMarkers:              "( 8 2 1 ( s [4] ) 4 2+:1 )",
		kmsg.TxnOffsetCommit:              "s s 8 2 3+:4 3+:s 3+:n ( 0-5:s 6+:16 ( 4 8 2+:4 n ) )",
		kmsg.UpdateFeatures:               "4 ( s 2 0-0:1 1+:1 ) 1+:1",
		kmsg.DescribeClientQuotas:         "( s 1 n ) 1",
		kmsg.AlterClientQuotas:            "( ( s n ) ( s 8 1 ) ) 1",
		kmsg.DescribeUserSCRAMCredentials: "( s )",
		kmsg.AlterUserSCRAMCredentials:    "( s 1 ) ( s 1 4 b b )",
		kmsg.DescribeTransactions:         "[s]",
		kmsg.ListTransactions:             "[s] [8] 1+:8 2+:n",
		kmsg.OffsetForLeaderEpoch:         "3+:4 ( s ( 4 2+:4 4 ) )",
		kmsg.DescribeConfigs:              "( 1 s [s] ) 1+:1 3+:1",
		kmsg.AlterConfigs:                 "( 1 s ( s n ) ) 1",
		kmsg.DescribeLogDirs:              "( s [4] )",
		kmsg.SASLAuthenticate:             "b",
		kmsg.CreatePartitions:             "( s 4 ( [4] ) ) 4 1",
		kmsg.DeleteGroups:                 "[s]",
		kmsg.ElectLeaders:                 "1+:1 ( s [4] ) 4",
		kmsg.IncrementalAlterConfigs:      "( 1 s ( s 1 n ) ) 1",
		kmsg.DescribeCluster:              "1 1+:1 2+:1",
		kmsg.DescribeQuorum:               "( s ( 4 ) )",
		kmsg.UnregisterBroker:             "4",
		kmsg.DescribeProducers:            "( s [4] )",
		kmsg.DescribeTopicPartitions:      "( s ) 4 ?{ s 4 }",
		kmsg.ListConfigResources:          "1+:[1]",
		kmsg.AlterPartitionAssignments:    "4 1+:1 ( s ( 4 [4] ) )",
		kmsg.ListPartitionReassignments:   "4 ( s [4] )",
		kmsg.OffsetDelete:                 "s ( s ( 4 ) )",
		kmsg.ConsumerGroupHeartbeat:       "s s 4 n n 4 [s] 1+:n n ( 16 [4] )",
		kmsg.DescribeACLs:                 "1 n 1+:1 n n 1 1",
		kmsg.CreateACLs:                   "( 1 s 1+:1 s s 1 1 )",
		kmsg.DeleteACLs:                   "( 1 n 1+:1 n n 1 1 )",
		kmsg.StreamsGroupHeartbeat: "s s 4 4 n n 4 ?{ 4 ( s [s] [s] ( s 4 2 ( s s ) ) [s] ( s 4 2 ( s s ) ) ( [2] [2] [2] ) ) } " +
			"( s [4] ) ( s [4] ) ( s [4] ) n ?{ s 2 } ( s s ) ( s 4 8 ) ( s 4 8 ) 1",
		kmsg.StreamsGroupDescribe:  "[s] 1 1+:1",
		kmsg.ConsumerGroupDescribe: "[s] 1",
	}
	byKey := make(map[int16]string, len(layouts))
	for key, layout := range layouts {
		byKey[int16(key)] = layout
	}
	return byKey
}
