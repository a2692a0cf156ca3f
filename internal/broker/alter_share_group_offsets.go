package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// AlterShareGroupOffsets (key 91), version 0: where a share group without members continues.
func alterShareGroupOffsetsAPI() api {
	type request = kmsg.AlterShareGroupOffsetsRequest
	l := groupAPI(kmsg.AlterShareGroupOffsets, 0, func(req *request) string { return req.GroupID }, nil)
	l.asks.parts = each(func(req *request) *[]kmsg.AlterShareGroupOffsetsRequestTopic { return &req.Topics },
		func(m rights, _ *request, x *kmsg.AlterShareGroupOffsetsRequestTopic) *kerr.Error {
			return m.topic(acl.Read, x.Topic)
		})
	l.changes = alteredShares
	l.enabled, l.refuse = sharesEnabled, refuseShareOffsets[*request]
	return l.api()
}

// refuseShareOffsets has no list of topics for errors of the group, as in Kafka.
func refuseShareOffsets[R kmsg.Request](_ *network.Request, req R, code *kerr.Error) kmsg.Response {
	if code == kerr.TopicAuthorizationFailed {
		return refuseWhole(req, code)
	}
	return group.Refuse(req, code)
}
