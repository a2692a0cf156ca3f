package format

import "encoding/binary"

// ClassicGroup is a classic group as of its last completed generation, or as of the time it became
// empty.
type ClassicGroup struct {
	ProtocolType string
	Generation   int32
	Protocol     *string
	Leader       *string
	Since        int64 // ms since 1970 when it entered its state, -1: not known
	Members      []ClassicMember
}

// ClassicMember is a member of a classic group.
type ClassicMember struct {
	ID                   string
	Instance             *string
	ClientID, ClientHost string
	RebalanceTimeout     int32 // ms
	SessionTimeout       int32 // ms
	// Subscription is the member's metadata for the group's protocol.
	Subscription, Assignment []byte
}

// Encode encodes the value in the version that Kafka 4.3 writes. Strings must not be longer than
// MaxString bytes.
func (g ClassicGroup) Encode() []byte {
	p := make([]byte, 0, 64+128*len(g.Members))
	p = binary.BigEndian.AppendUint16(p, classicGroupVersion)
	p = appendString(p, g.ProtocolType)
	p = appendInt32(p, g.Generation)
	p = appendOldNullable(p, g.Protocol)
	p = appendOldNullable(p, g.Leader)
	p = appendInt64(p, g.Since)
	p = appendInt32(p, int32(len(g.Members)))
	for i := range g.Members {
		m := &g.Members[i]
		p = appendString(p, m.ID)
		p = appendOldNullable(p, m.Instance)
		p = appendString(p, m.ClientID)
		p = appendString(p, m.ClientHost)
		p = appendInt32(p, m.RebalanceTimeout)
		p = appendInt32(p, m.SessionTimeout)
		p = appendBytes(p, m.Subscription)
		p = appendBytes(p, m.Assignment)
	}
	return p
}

// DecodeClassic decodes a classic group of any version. Version 0 has no rebalance timeout; the
// session timeout is used instead.
func DecodeClassic(p []byte) (ClassicGroup, error) {
	r := read(p)
	v := r.version(maxClassicVersion)
	flexible := v >= 4
	g := ClassicGroup{ProtocolType: r.stringOf(flexible), Generation: r.int32(), Protocol: r.nullableOf(flexible),
		Leader: r.nullableOf(flexible), Since: -1}
	if v >= 2 {
		g.Since = r.int64()
	}
	var n int
	if flexible {
		n = r.count(20)
	} else if n = int(r.int32()); n > r.Left()/18 {
		r.fail("%d members, but only %d bytes are left", n, r.Left())
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		g.Members = append(g.Members, r.classicMember(v))
	}
	if flexible {
		r.tags(nil)
	}
	if err := r.end("classic group"); err != nil {
		return ClassicGroup{}, err
	}
	return g, nil
}

func (r *reader) classicMember(version int16) ClassicMember {
	flexible := version >= 4
	m := ClassicMember{ID: r.stringOf(flexible), RebalanceTimeout: -1}
	if version >= 3 {
		m.Instance = r.nullableOf(flexible)
	}
	m.ClientID, m.ClientHost = r.stringOf(flexible), r.stringOf(flexible)
	if version >= 1 {
		m.RebalanceTimeout = r.int32()
	}
	m.SessionTimeout = r.int32()
	if m.RebalanceTimeout < 0 {
		m.RebalanceTimeout = m.SessionTimeout
	}
	m.Subscription, m.Assignment = r.bytesOf(flexible), r.bytesOf(flexible)
	if flexible {
		r.tags(nil)
	}
	return m
}

func (r *reader) stringOf(flexible bool) string {
	if flexible {
		return r.compactString()
	}
	return r.string()
}

func (r *reader) nullableOf(flexible bool) *string {
	if flexible {
		return r.nullableString()
	}
	return r.oldNullableString()
}

// bytesOf returns a copy, so that the decoded value does not keep its whole batch in memory.
func (r *reader) bytesOf(flexible bool) []byte {
	if flexible {
		return append([]byte(nil), r.compact()...)
	}
	return append([]byte(nil), r.Take(int(r.int32()))...)
}
