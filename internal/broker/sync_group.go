package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// SyncGroup (key 14), versions 0 to 5: answered when the leader of a classic group has said who gets what.
func syncGroupAPI() api {
	return api{protocol.API{Key: int16(kmsg.SyncGroup), Min: 0, Max: 5}, waitsForMembers(func(req *kmsg.SyncGroupRequest) string { return req.Group })}
}
