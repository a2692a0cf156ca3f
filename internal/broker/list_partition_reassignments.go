package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ListPartitionReassignments (key 46), version 0: the partitions that are being moved to other
// brokers (KIP-455). On a single node there are none; as in Kafka, that is also the answer for
// unknown topics.
func listPartitionReassignmentsAPI() api {
	return apiDef[*kmsg.ListPartitionReassignmentsRequest]{
		API:    protocol.API{Key: int16(kmsg.ListPartitionReassignments), Max: 0},
		needs:  func(_ *kmsg.ListPartitionReassignmentsRequest, n *needs) { n.cluster(opDescribe) },
		handle: answering(listPartitionReassignments),
	}.api()
}

func listPartitionReassignments(_ *Broker, r *network.Request, _ *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	return respondTo(r, kmsg.NewPtrListPartitionReassignmentsResponse())
}
