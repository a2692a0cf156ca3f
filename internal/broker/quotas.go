package broker

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Quotas (KIP-13, KIP-124, KIP-219, KIP-599): a request is served whole, what it used is charged to
// its client, and a client in debt is answered with the time for which its connection is not read.
//
//	Produce      the bytes of the request, before it is handled
//	Fetch        the bytes of the records in its answer; in debt it is answered without records
//	all          the time of the handler on the goroutine that read the request
//	changes of   the partitions that are created or deleted; newer versions are refused in debt,
//	topics       older ones wait

// tenant returns the quotas of a request's client; nil if none apply to it.
func (b *Handler) tenant(r *network.Request) *quota.Tenant {
	if b.opt.Quotas == nil {
		return nil
	}
	k, _ := r.Session.Kept().(kept)
	t := b.opt.Quotas.Tenant(k.tenant, strings.TrimPrefix(r.Session.Principal, "User:"), r.ClientID)
	if t != k.tenant {
		r.Session.Keep(kept{subject: k.subject, tenant: t})
	}
	return t
}

// limitOf returns the limit that applies to an API's requests besides that of their time.
func limitOf(key kmsg.Key) quota.Limit {
	switch key {
	case kmsg.Produce:
		return quota.Produced
	case kmsg.Fetch:
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
// them if the client's version of the API knows the error; strict is the first one that does.
func (b *Handler) mutate(r *network.Request, strict int16, partitions int32) error {
	t := b.tenant(r)
	if t.Take(quota.Mutations, int64(partitions)) {
		return nil
	}
	if r.Version < strict {
		t.Charge(quota.Mutations, int64(partitions))
		return nil
	}
	return protocolErrorf(kerr.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")
}
