package broker

import (
	"math"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// Authorized operations are those that a client may perform on a resource, as bits by the numbers
// of Kafka's AclOperation (KIP-430).

// opsNotAsked is the answer to a client that did not ask for them.
const opsNotAsked = math.MinInt32

// topicOperations returns the operations on a topic, if they were asked for.
func (m rights) topicOperations(asked bool, name string) int32 {
	return m.operationsOf(asked, acl.Topic, name)
}

// groupOperations returns the operations on a group, if they were asked for.
func (m rights) groupOperations(asked bool, id string) int32 {
	return m.operationsOf(asked, acl.Group, id)
}

// clusterOperations returns the operations on the cluster, if they were asked for. As in Kafka they
// are none for a client that may not describe the cluster.
func (m rights) clusterOperations(asked bool) int32 {
	if asked && !m.mayCluster(acl.Describe) {
		return 0
	}
	return m.operationsOf(asked, acl.Cluster, acl.ClusterName)
}

func (m rights) operationsOf(asked bool, kind acl.ResourceType, name string) int32 {
	if !asked {
		return opsNotAsked
	}
	return int32(m.operations(kind, name) & acl.Supported(kind))
}
