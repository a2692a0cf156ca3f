package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// DeleteShareGroupOffsets (key 92), version 0: a share group without members forgets topics.
func deleteShareGroupOffsetsAPI() api {
	type request = kmsg.DeleteShareGroupOffsetsRequest
	l := groupAPI(kmsg.DeleteShareGroupOffsets, 0, func(req *request) string { return req.GroupID }, nil)
	l.asks.whole = func(m rights, req *request) *kerr.Error { return m.group(acl.Delete, req.GroupID) }
	l.asks.parts = each(func(req *request) *[]kmsg.DeleteShareGroupOffsetsRequestTopic { return &req.Topics },
		func(m rights, _ *request, x *kmsg.DeleteShareGroupOffsetsRequestTopic) *kerr.Error {
			return m.topic(acl.Read, x.Topic)
		})
	l.changes = deletedShares
	l.enabled, l.refuse = sharesEnabled, refuseShareOffsets[*request]
	return l.api()
}
