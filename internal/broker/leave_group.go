package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

// LeaveGroup (key 13), versions 0 to 5: one member leaves a classic group, or from version 3 on several.
func leaveGroupAPI() api {
	return api{protocol.API{Key: int16(kmsg.LeaveGroup), Min: 0, Max: 5}, aboutGroup(func(req *kmsg.LeaveGroupRequest) string { return req.Group })}
}
