package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// Heartbeat (key 12), versions 0 to 4: a member of a classic group is alive.
func heartbeatAPI() api {
	return api{protocol.API{Key: int16(kmsg.Heartbeat), Min: 0, Max: 4}, aboutGroup(func(req *kmsg.HeartbeatRequest) string { return req.Group })}
}
