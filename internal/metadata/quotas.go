package metadata

import (
	"iter"
	"maps"
	"net/url"
	"strings"

	"github.com/chronik-io/chronik/internal/security/quota"
)

// Quota is the limits of one entity (KIP-546). It is immutable.
type Quota struct {
	Entity quota.Entity
	Limits map[string]float64 // by the name of the limit; never empty
	// Revision is the revision that last changed it.
	Revision int64
}

type quotaJSON struct {
	header
	Limits map[string]float64 `json:"limits"`
}

// quotaPart is one part of an entity, with its name in keys.
type quotaPart struct {
	kind string
	name *quota.Name
}

// quotaParts returns the parts of an entity in the order that they have in its key.
func quotaParts(e *quota.Entity) []quotaPart {
	return []quotaPart{{"user", &e.User}, {"client", &e.Client}, {"ip", &e.Address}}
}

// formatEntity returns what follows QuotaPrefix in a key: ip=10.0.0.1, user=bob, or
// user=bob&client= if the second part is the default. Names are escaped as in a URL query.
func formatEntity(e quota.Entity) string {
	var parts []string
	for _, p := range quotaParts(&e) {
		switch p.name.Kind {
		case quota.Named:
			parts = append(parts, p.kind+"="+url.QueryEscape(p.name.Text))
		case quota.Default:
			parts = append(parts, p.kind+"=")
		case quota.None:
		}
	}
	return strings.Join(parts, "&")
}

// parseEntity is the inverse of formatEntity.
func parseEntity(s string) (e quota.Entity, ok bool) {
	for part := range strings.SplitSeq(s, "&") {
		kind, escaped, _ := strings.Cut(part, "=")
		text, err := url.QueryUnescape(escaped)
		if err != nil {
			return e, false
		}
		for _, p := range quotaParts(&e) {
			if p.kind != kind {
				continue
			}
			if *p.name = quota.Any(); text != "" {
				*p.name = quota.Of(text)
			}
		}
	}
	return e, e.Valid()
}

// Encode returns the value of QuotaKey.
func (q Quota) Encode() []byte { return encode(quotaJSON{header: current, Limits: q.Limits}) }

// DecodeQuota is the inverse of Quota.Encode. The entity is that of the key.
func DecodeQuota(kv KV) (Quota, error) {
	k, err := keyOf(kv, KindQuota)
	if err != nil {
		return Quota{}, err
	}
	w, err := decode[quotaJSON](kv)
	if err != nil {
		return Quota{}, err
	}
	if len(w.Limits) == 0 {
		return Quota{}, invalid(kv, "a quota must have a limit")
	}
	for name, v := range w.Limits {
		if _, ok := quota.ParseLimit(name); !ok || !(v > 0) {
			return Quota{}, invalid(kv, "a limit is unknown or not greater than 0")
		}
	}
	return Quota{Entity: k.Entity, Limits: w.Limits, Revision: kv.ModRevision}, nil
}

// Quotas iterates over all quotas, in no order.
func (m *Image) Quotas() iter.Seq[Quota] { return m.quotas.values() }

// NumQuotas returns the number of entities that have quotas.
func (m *Image) NumQuotas() int { return m.quotas.len() }

// putQuota adds or changes a quota.
func (b *builder) putQuota(e quota.Entity, kv KV) error {
	q, err := DecodeQuota(kv)
	if err != nil {
		return err
	}
	b.quotas.set(e, q)
	b.delta.Quotas = true
	return nil
}

// removeQuota removes a quota; a missing one is no change.
func (b *builder) removeQuota(e quota.Entity) {
	if _, ok := b.prev.quotas.get(e); ok {
		b.quotas.delete(e)
		b.delta.Quotas = true
	}
}

func sameQuota(a, b Quota) bool { return a.Revision == b.Revision && maps.Equal(a.Limits, b.Limits) }
