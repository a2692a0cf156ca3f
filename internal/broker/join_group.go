package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// JoinGroup (key 11), versions 0 to 9: answered when all members of a classic group have joined.
func joinGroupAPI() api {
	return api{protocol.API{Key: int16(kmsg.JoinGroup), Min: 0, Max: 9}, waitsForMembers(func(req *kmsg.JoinGroupRequest) string { return req.Group })}
}
