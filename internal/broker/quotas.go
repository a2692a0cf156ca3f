package broker

import (
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Quotas (KIP-13, KIP-124, KIP-219, KIP-599): a request is served whole, what it used is charged to
// its client, and a client in debt is answered with the time for which its connection is not read.
// A request that comes in debt all the same, as on another connection, waits for its turn before it
// is read (see turns).
//
//	Produce      the bytes of the request, when its turn is asked for
//	Fetch        the bytes of the records in its answer; in debt it is answered without records
//	all          the time of the handler on the goroutine that read the request
//	changes of   the partitions that are created or deleted; newer versions are refused in debt,
//	topics       older ones wait for their turn

// tenant returns the quotas of a request's client; nil if none apply to it.
func (b *Handler) tenant(r *network.Request) *quota.Tenant {
	return b.tenantOf(r.Session, r.ClientID)
}

func (b *Handler) tenantOf(s *network.Session, clientID string) *quota.Tenant {
	if !b.opt.Quotas.Any() {
		return nil
	}
	k, _ := s.Kept().(kept)
	t := b.opt.Quotas.Tenant(k.tenant, strings.TrimPrefix(s.Principal, "User:"), clientID)
	if t != k.tenant {
		s.Keep(kept{subject: k.subject, tenant: t})
	}
	return t
}

// turns gives requests their turns, by the quotas of a broker; of returns nil if there is none yet.
type turns struct{ of func() *Handler }

// Quotas returns what gives b's requests their turns.
func (b *Handler) Quotas() network.Quotas { return turns{func() *Handler { return b }} }

// Quotas returns what gives the requests of the broker that serves them their turns.
func (s *Starting) Quotas() network.Quotas { return turns{s.serves.broker.Load} }

func (t turns) Any() bool {
	b := t.of()
	return b != nil && b.opt.Quotas.Any()
}

func (t turns) Turn(s *network.Session, clientID string, key, version int16, size int) quota.Turn {
	of, n := limitOf(kmsg.Key(key)), 0
	switch {
	case of == quota.Produced && s.Via:
		of = quota.RequestTime // the broker to which the client is connected has charged the bytes
	case of == quota.Produced:
		n = size
	case of == quota.Fetched, version >= strictFrom(kmsg.Key(key)):
		of = quota.RequestTime // of its own limit the handler takes care, and answers at once
	}
	return t.of().tenantOf(s, clientID).Turn(of, int64(n))
}

// strictFrom returns the first version of a change of topics whose clients know
// THROTTLING_QUOTA_EXCEEDED.
func strictFrom(key kmsg.Key) int16 {
	switch key {
	case kmsg.CreateTopics:
		return 6
	case kmsg.DeleteTopics:
		return 5
	case kmsg.CreatePartitions:
		return 3
	}
	return math.MaxInt16
}

// limitOf returns the limit that applies to an API's requests besides that of their time.
func limitOf(key kmsg.Key) quota.Limit {
	switch key {
	case kmsg.Produce:
		return quota.Produced
	case kmsg.Fetch, kmsg.ShareFetch:
		return quota.Fetched
	case kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions:
		return quota.Mutations
	}
	return quota.RequestTime
}

// timed returns a function that charges the time since now to a client; nil if it has no quota of
// time.
func timed(t *quota.Tenant) func() {
	if !t.Limited(quota.RequestTime) {
		return nil
	}
	began := t.Now()
	return func() { t.ChargeTime(t.Now() - began) }
}

// mutate charges a client with partitions that it wants to create or delete. In debt it refuses
// them if the client's version of the API knows the error.
func (b *Handler) mutate(r *network.Request, partitions int32) error {
	t := b.tenant(r)
	if t.Take(quota.Mutations, int64(partitions)) {
		return nil
	}
	if r.Version < strictFrom(kmsg.Key(r.Key)) {
		t.Charge(quota.Mutations, int64(partitions))
		return nil
	}
	return protocolErrorf(kerr.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")
}
