package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ShareGroupHeartbeat (key 76), version 1: everything that a member of a share group sends to the
// group coordinator (KIP-932).
func shareGroupHeartbeatAPI() api {
	l := groupAPI(kmsg.ShareGroupHeartbeat, 1, func(req *kmsg.ShareGroupHeartbeatRequest) string { return req.GroupID }, nil)
	l.API.Min, l.enabled = 1, sharesEnabled
	l.asks.whole = func(m rights, req *kmsg.ShareGroupHeartbeatRequest) *kerr.Error {
		if err := m.group(acl.Read, req.GroupID); err != nil || !group.ValidShare(req) {
			return err // the shard refuses an invalid request, and says why
		}
		return m.allTopics(acl.Describe, req.SubscribedTopicNames)
	}
	return l.api()
}
