package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// newMember returns the member that a JoinGroup describes.
func newMember(id string, e Request, req *kmsg.JoinGroupRequest) *classicMember {
	m := &classicMember{id: id, instance: deref(req.InstanceID), clientID: e.ClientID, clientHost: e.ClientHost, fresh: true}
	m.update(req)
	return m
}

// update copies the settings in a JoinGroup.
func (m *classicMember) update(req *kmsg.JoinGroupRequest) {
	m.session, m.rebalance = req.SessionTimeoutMillis, req.RebalanceTimeoutMillis
	if req.Version == 0 || m.rebalance < 0 {
		m.rebalance = m.session
	}
	m.protocols = protocolsOf(req.Protocols)
	m.groupType = req.ProtocolType
}

func protocolsOf(list []kmsg.JoinGroupRequestProtocol) []format.Protocol {
	out := make([]format.Protocol, len(list))
	for i, p := range list {
		out[i] = format.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	return out
}

func (m *classicMember) protocolType() string { return m.groupType }

func (m *classicMember) supports(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p format.Protocol) bool { return p.Name == protocol })
}

// metadata returns the member's metadata for a protocol, or for its first one if none is chosen
// yet.
func (m *classicMember) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol || protocol == "" {
			return p.Metadata
		}
	}
	return nil
}

// sameProtocols reports whether a JoinGroup has the protocols that the member already has.
func (m *classicMember) sameProtocols(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a format.Protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// checkMember returns why a request's member id and instance id do not match, nil if they do.
func (c *classic) checkMember(id string, instance *string) *failure {
	if f := checkInstance(c.static, id, instance); f != nil {
		return f
	}
	if c.members[id] == nil {
		return refuse(kerr.UnknownMemberID)
	}
	return nil
}

// checkInstance returns why an instance id, if there is one, is not that of a member. static has
// the group's member ids by instance.
func checkInstance(static map[string]string, id string, instance *string) *failure {
	if instance == nil {
		return nil
	}
	switch owner, known := static[*instance]; {
	case !known:
		return refuse(kerr.UnknownMemberID)
	case owner != id:
		return refuse(kerr.FencedInstanceID)
	}
	return nil
}
