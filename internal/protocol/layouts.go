package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// requestLayouts returns the layout of every request that the guard knows, by API key, in the
// language of layout.go. They are Kafka's message definitions without the names. A test fills each
// kmsg request at random, at each of its versions, and checks the encoding against its layout.
func requestLayouts() map[int16]string {
	layouts := map[kmsg.Key]string{
		kmsg.Produce: "3+:n 2 4 ( 0-12:s 13+:16 ( 4 N ) )",
		kmsg.Fetch: "0-14:4 4 4 3+:4 4+:1 7+:4 7+:4 " +
			"( 0-12:s 13+:16 ( 4 9+:4 8 12+:4 5+:8 4 ) ) 7+:( 0-12:s 13+:16 [4] ) 11+:i",
		kmsg.ListOffsets:                  "4 2+:1 ( s ( 4 4+:4 8 0:4 ) ) 10+:4",
		kmsg.Metadata:                     "( 10+:16 0-9:s 10+:n ) 4+:1 8-10:1 8+:1",
		kmsg.OffsetCommit:                 "g 1+:4 1+:i 7+:j 2-4:8 ( 0-9:s 10+:16 ( 4 8 1:8 6+:4 n ) )",
		kmsg.OffsetFetch:                  "0-7:g 0-7:( s [4] ) 8+:( g 9+:j 9+:4 ( 0-9:s 10+:16 [4] ) ) 7+:1",
		kmsg.FindCoordinator:              "0-3:s 1+:1 4+:[s]",
		kmsg.JoinGroup:                    "g 4 1+:4 i 5+:j i ( i b ) 8+:n",
		kmsg.Heartbeat:                    "g 4 i 3+:j",
		kmsg.LeaveGroup:                   "g 0-2:i 3+:( i j 5+:n )",
		kmsg.SyncGroup:                    "g 4 i 3+:j 5+:j 5+:j ( i b )",
		kmsg.DescribeGroups:               "[g] 3+:1",
		kmsg.ListGroups:                   "4+:[s] 5+:[s]",
		kmsg.SASLHandshake:                "s",
		kmsg.ApiVersions:                  "3+:i 3+:i 5+:n 5+:4",
		kmsg.CreateTopics:                 "( s 4 2 ( 4 [4] ) ( s n ) ) 4 1+:1",
		kmsg.DeleteTopics:                 "0-5:[s] 6+:( n 16 ) 4",
		kmsg.DeleteRecords:                "( s ( 4 8 ) ) 4",
		kmsg.InitProducerID:               "j 4 3+:8 3+:2 6+:1 6+:1",
		kmsg.AddPartitionsToTxn:           "0-3:i 0-3:8 0-3:2 0-3:( s [4] ) 4+:( i 8 2 1 ( s [4] ) )",
		kmsg.AddOffsetsToTxn:              "i 8 2 g",
		kmsg.EndTxn:                       "i 8 2 1",
		kmsg.WriteTxnMarkers:              "( 8 2 1 ( s [4] ) 4 2+:1 )",
		kmsg.TxnOffsetCommit:              "i g 8 2 3+:4 3+:i 3+:j ( 0-5:s 6+:16 ( 4 8 2+:4 n ) )",
		kmsg.UpdateFeatures:               "4 ( s 2 0-0:1 1+:1 ) 1+:1",
		kmsg.DescribeClientQuotas:         "( s 1 n ) 1",
		kmsg.AlterClientQuotas:            "( ( s n ) ( s 8 1 ) ) 1",
		kmsg.DescribeUserSCRAMCredentials: "( s )",
		kmsg.AlterUserSCRAMCredentials:    "( s 1 ) ( s 1 4 b b )",
		kmsg.DescribeTransactions:         "[i]",
		kmsg.ListTransactions:             "[s] [8] 1+:8 2+:n",
		kmsg.OffsetForLeaderEpoch:         "3+:4 ( s ( 4 2+:4 4 ) )",
		kmsg.DescribeConfigs:              "( 1 s [s] ) 1+:1 3+:1",
		kmsg.AlterConfigs:                 "( 1 s ( s n ) ) 1",
		kmsg.AlterReplicaLogDirs:          "( s ( s [4] ) )",
		kmsg.DescribeLogDirs:              "( s [4] )",
		kmsg.SASLAuthenticate:             "b",
		kmsg.CreatePartitions:             "( s 4 ( [4] ) ) 4 1",
		kmsg.DeleteGroups:                 "[g]",
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
		kmsg.OffsetDelete:                 "g ( s ( 4 ) )",
		kmsg.ConsumerGroupHeartbeat:       "g i 4 j j 4 [s] 1+:n j ( 16 [4] )",
		kmsg.DescribeACLs:                 "1 n 1+:1 n n 1 1",
		kmsg.CreateACLs:                   "( 1 s 1+:1 s s 1 1 )",
		kmsg.DeleteACLs:                   "( 1 n 1+:1 n n 1 1 )",
		kmsg.StreamsGroupHeartbeat: "g i 4 4 j j 4 ?{ 4 ( s [s] [s] ( s 4 2 ( s s ) ) [s] ( s 4 2 ( s s ) ) ( [2] [2] [2] ) ) } " +
			"( s [4] ) ( s [4] ) ( s [4] ) j ?{ i 2 } ( s s ) ( s 4 8 ) ( s 4 8 ) 1",
		kmsg.StreamsGroupDescribe:      "[g] 1 1+:1",
		kmsg.ConsumerGroupDescribe:     "[g] 1",
		kmsg.ShareGroupHeartbeat:       "g i 4 j [s]",
		kmsg.ShareGroupDescribe:        "[g] 1",
		kmsg.GetTelemetrySubscriptions: "16",
		kmsg.PushTelemetry:             "16 4 1 1 b",

		kmsg.InitializeShareGroupState:  "g ( 16 ( 4 4 8 ) )",
		kmsg.ReadShareGroupState:        "g ( 16 ( 4 4 ) )",
		kmsg.WriteShareGroupState:       "g ( 16 ( 4 4 4 8 1+:4 ( 8 8 1 2 ) ) )",
		kmsg.DeleteShareGroupState:      "g ( 16 ( 4 ) )",
		kmsg.ReadShareGroupStateSummary: "g ( 16 ( 4 4 ) )",
		kmsg.DescribeShareGroupOffsets:  "( g ( s [4] ) )",
		kmsg.AlterShareGroupOffsets:     "g ( s ( 4 8 ) )",
		kmsg.DeleteShareGroupOffsets:    "g ( s )",
		kmsg.ShareFetch: "G j 4 4 4 4 1+:4 1+:4 2+:1 2+:1 " +
			"( 16 ( 4 0:4 ( 8 8 [1] ) ) ) ( 16 [4] )",
		kmsg.ShareAcknowledge: "G j 4 2+:1 ( 16 ( 4 ( 8 8 [1] ) ) )",
	}
	byKey := make(map[int16]string, len(layouts))
	for key, layout := range layouts {
		byKey[int16(key)] = layout
	}
	return byKey
}
