package broker

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// AlterClientQuotas (key 49), versions 0 and 1: sets and removes quotas of users, client ids and
// addresses (KIP-546).
func alterClientQuotasAPI() api {
	return apiDef[*kmsg.AlterClientQuotasRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AlterClientQuotas), Max: 1},
		asks:         clusterAsks[*kmsg.AlterClientQuotasRequest](acl.AlterConfigs),
		refuse: func(r *network.Request, req *kmsg.AlterClientQuotasRequest, code *kerr.Error) kmsg.Response {
			return refuseQuotas(r, req, denied(code))
		},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, alterClientQuotas),
	}.api()
}

// quotaChange is what a request asks for one entity.
type quotaChange struct {
	controller.QuotaChange
	parts []entityPart // for the answer
	err   error        // why it can't be done
}

// quotaChanges returns what a request asks for, each entity once.
func quotaChanges(req *kmsg.AlterClientQuotasRequest) []*quotaChange {
	var list []*quotaChange
	first := map[quota.Entity]*quotaChange{}
	for i := range req.Entries {
		x := newQuotaChange(&req.Entries[i])
		before := first[x.Entity]
		switch {
		case x.err != nil && !x.Entity.Valid():
		case before != nil:
			before.err = errDuplicateEntity(before.parts)
			continue
		default:
			first[x.Entity] = x
		}
		list = append(list, x)
	}
	return list
}

// newQuotaChange returns what one entry of a request asks for.
func newQuotaChange(entry *kmsg.AlterClientQuotasRequestEntry) *quotaChange {
	x := &quotaChange{QuotaChange: controller.QuotaChange{Set: map[string]float64{}}}
	for _, p := range entry.Entity {
		x.parts = append(x.parts, entityPart{p.Type, p.Name})
	}
	if x.Entity, x.err = entityOf(x.parts); x.err != nil {
		return x
	}
	x.parts = entityParts(x.Entity)
	named := map[string]bool{}
	for _, op := range entry.Ops {
		l, known := quota.ParseLimit(op.Key)
		switch {
		case named[op.Key]:
			x.err = errDuplicateEntity(x.parts)
		case op.Remove:
			x.Remove = append(x.Remove, op.Key)
		case !known || l.OfAddress() != (x.Entity.Address != quota.Name{}):
			x.err = protocolErrorf(kerr.InvalidRequest, "Invalid configuration key %s", op.Key)
		case l.Check(op.Value) != "":
			x.err = protocolErrorf(kerr.InvalidRequest, "%s", l.Check(op.Value))
		default:
			x.Set[op.Key] = op.Value
		}
		if x.err != nil {
			break
		}
		named[op.Key] = true
	}
	return x
}

// errDuplicateEntity is Kafka's error for an entity, or a limit of one, that a request names twice.
func errDuplicateEntity(parts []entityPart) error {
	var texts []string
	for _, p := range parts {
		name := "null"
		if p.name != nil {
			name = *p.name
		}
		texts = append(texts, p.kind+"="+name)
	}
	return protocolErrorf(kerr.InvalidRequest, "Ignoring duplicate entity ClientQuotaEntity(entries={%s})",
		strings.Join(texts, ", "))
}

func alterClientQuotas(ctx context.Context, b *Handler, r *network.Request, req *kmsg.AlterClientQuotasRequest) kmsg.Response {
	c := b.newChange(r, changeTimeout)
	list := quotaChanges(req)
	var valid []controller.QuotaChange
	for _, x := range list {
		if x.err == nil {
			valid = append(valid, x.QuotaChange)
		}
	}
	if len(valid) > 0 && !req.ValidateOnly {
		err := c.do(ctx, func(ctx context.Context) (int64, error) { return b.opt.Controller.AlterQuotas(ctx, valid) })
		if err == nil {
			err = c.waitVisible(ctx)
		}
		for _, x := range list {
			if x.err == nil {
				x.err = err
			}
		}
	}
	return answerQuotas(r, list, func(err error) (int16, *string) { return b.verdict(r, err) })
}

// answerQuotas answers with the outcome for each entity.
func answerQuotas(r *network.Request, list []*quotaChange, verdict func(error) (int16, *string)) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterClientQuotasResponse())
	resp.Entries = make([]kmsg.AlterClientQuotasResponseEntry, len(list))
	for i, x := range list {
		e := &resp.Entries[i]
		if e.ErrorCode, e.ErrorMessage = verdict(x.err); e.ErrorCode != 0 {
			r.Code = e.ErrorCode
		}
		for _, p := range x.parts {
			e.Entity = append(e.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: p.kind, Name: p.name})
		}
	}
	return resp
}

// refuseQuotas answers with one error for all entities.
func refuseQuotas(r *network.Request, req *kmsg.AlterClientQuotasRequest, err error) kmsg.Response {
	list := make([]*quotaChange, len(req.Entries))
	for i := range list {
		x := &quotaChange{err: err}
		for _, p := range req.Entries[i].Entity {
			x.parts = append(x.parts, entityPart{p.Type, p.Name})
		}
		list[i] = x
	}
	return answerQuotas(r, list, verdict)
}
