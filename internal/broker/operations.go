package broker

import "math"

// Authorized operations, as bits by the numbers of Kafka's AclOperation (KIP-430). Without an
// authorizer a client has all operations of a resource type.
const (
	opsNotAsked = math.MinInt32
	// READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, DESCRIBE_CONFIGS 10,
	// ALTER_CONFIGS 11
	topicOps = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	// READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11
	groupOps = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
	// CREATE 5, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11,
	// IDEMPOTENT_WRITE 12
	clusterOps = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// operations returns the authorized operations of an answer.
func operations(asked bool, all int32) int32 {
	if asked {
		return all
	}
	return opsNotAsked
}
