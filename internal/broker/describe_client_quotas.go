package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/sorts"
)

// DescribeClientQuotas (key 48), versions 0 and 1: the quotas of users, client ids and addresses
// (KIP-546). In contrast to Kafka's, the answer is sorted.
func describeClientQuotasAPI() api {
	return apiDef[*kmsg.DescribeClientQuotasRequest]{
		API:    protocol.API{Key: int16(kmsg.DescribeClientQuotas), Max: 1},
		asks:   clusterAsks[*kmsg.DescribeClientQuotasRequest](acl.DescribeConfigs),
		handle: answering(describeClientQuotas),
		answerBytes: func(b *Handler, _ *kmsg.DescribeClientQuotasRequest) int64 {
			return entryAnswer * int64(b.image().NumQuotas())
		},
	}.api()
}

func describeClientQuotas(b *Handler, r *network.Request, req *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeClientQuotasResponse())
	f, err := quotaFilterOf(req)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = b.verdict(r, err)
		r.Code = resp.ErrorCode
		return resp
	}
	var found []metadata.Quota
	for q := range b.image().Quotas() {
		if f.matches(q.Entity) {
			found = append(found, q)
		}
	}
	sorts.Sort(found, func(a, b metadata.Quota) int { return compareEntities(a.Entity, b.Entity) })
	resp.ErrorMessage = kmsg.StringPtr("") // as Kafka
	resp.Entries = make([]kmsg.DescribeClientQuotasResponseEntry, len(found))
	for i, q := range found {
		e := &resp.Entries[i]
		for _, p := range entityParts(q.Entity) {
			e.Entity = append(e.Entity, kmsg.DescribeClientQuotasResponseEntryEntity{Type: p.kind, Name: p.name})
		}
		for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
			e.Values = append(e.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: name, Value: q.Limits[name]})
		}
	}
	return resp
}

// quotaFilter selects entities.
type quotaFilter struct {
	// parts are what the entity's parts must be; without a part, all are selected.
	parts map[string]*quota.Name // nil: any name, or the default
	// strict: the entity has no other parts.
	strict bool
}

// The kinds of a match in a request.
const (
	matchExact = iota
	matchDefault
	matchAny
)

// quotaFilterOf returns the filter of a request.
func quotaFilterOf(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, error) {
	f := quotaFilter{parts: map[string]*quota.Name{}, strict: req.Strict}
	for i := range req.Components {
		x := &req.Components[i]
		if _, twice := f.parts[x.EntityType]; twice {
			return f, protocolErrorf(kerr.InvalidRequest, "Entity type %s cannot appear more than once in the filter.", x.EntityType)
		}
		var name *quota.Name
		switch {
		case x.EntityType == "":
			return f, protocolErrorf(kerr.InvalidRequest, "Invalid empty entity type.")
		case partOf(&quota.Entity{}, x.EntityType) == nil:
			return f, protocolErrorf(kerr.UnsupportedVersion, "Unsupported entity type %s", x.EntityType)
		case x.MatchType == matchExact && x.Match == nil:
			return f, protocolErrorf(kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case x.MatchType == matchExact:
			name = &quota.Name{Kind: quota.Named, Text: *x.Match}
			if e, err := entityOf([]entityPart{{x.EntityType, x.Match}}); err == nil {
				*name = *partOf(&e, x.EntityType) // an address in its one form
			}
		case x.MatchType == matchDefault && x.Match != nil:
			return f, protocolErrorf(kerr.InvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case x.MatchType == matchDefault:
			name = new(quota.Any())
		case x.MatchType == matchAny && x.Match != nil:
			return f, protocolErrorf(kerr.InvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		case x.MatchType != matchAny:
			return f, protocolErrorf(kerr.InvalidRequest, "Unknown match type %d", int8(x.MatchType))
		}
		f.parts[x.EntityType] = name
	}
	if _, ip := f.parts[addressEntity]; ip && len(f.parts) > 1 {
		return f, protocolErrorf(kerr.InvalidRequest, "Invalid entity filter component combination. "+
			"IP filter component should not be used with user or clientId filter component.")
	}
	return f, nil
}

// matches reports whether the filter selects an entity.
func (f *quotaFilter) matches(e quota.Entity) bool {
	for kind, want := range f.parts {
		if n := *partOf(&e, kind); n.Kind == quota.None || want != nil && n != *want {
			return false
		}
	}
	return !f.strict || len(entityParts(e)) == len(f.parts)
}
