package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// ConsumerGroupHeartbeat (key 68), versions 0 to 1: all that a member of a consumer group (KIP-848) says.
func consumerGroupHeartbeatAPI() api {
	return api{protocol.API{Key: int16(kmsg.ConsumerGroupHeartbeat), Min: 0, Max: 1}, aboutGroup(func(req *kmsg.ConsumerGroupHeartbeatRequest) string { return req.Group })}
}
