package broker

import (
	"cmp"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// The types of entities in requests about quotas (KIP-546).
const (
	userEntity    = "user"
	clientEntity  = "client-id"
	addressEntity = "ip"
)

// maxEntityName bounds the names of entities with quotas, in bytes: every broker holds them in
// memory. No user has a longer one.
const maxEntityName = metadata.MaxUserName

// partOf returns the part of an entity that has a type; nil if there is no such type.
func partOf(e *quota.Entity, kind string) *quota.Name {
	switch kind {
	case userEntity:
		return &e.User
	case clientEntity:
		return &e.Client
	case addressEntity:
		return &e.Address
	}
	return nil
}

// entityPart is one part of an entity as requests and answers have it; no name stands for the
// default.
type entityPart struct {
	kind string
	name *string
}

// entityParts returns the parts of an entity in Kafka's order.
func entityParts(e quota.Entity) []entityPart {
	var list []entityPart
	for _, kind := range []string{clientEntity, addressEntity, userEntity} {
		switch n := partOf(&e, kind); n.Kind {
		case quota.Named:
			list = append(list, entityPart{kind, &n.Text})
		case quota.Default:
			list = append(list, entityPart{kind: kind})
		case quota.None:
		}
	}
	return list
}

// entityOf returns the entity that parts of a request name. Of parts with one type the last counts,
// as in Kafka.
func entityOf(parts []entityPart) (e quota.Entity, err error) {
	if len(parts) == 0 {
		return e, protocolErrorf(kerr.InvalidRequest, "Invalid empty client quota entity")
	}
	for _, p := range parts {
		n := partOf(&e, p.kind)
		switch {
		case n == nil:
			return e, protocolErrorf(kerr.InvalidRequest, "Unhandled client quota entity type: %s", p.kind)
		case p.name == nil:
			*n = quota.Any()
		case *p.name == "":
			return e, protocolErrorf(kerr.InvalidRequest, "Empty %s not supported", p.kind)
		case len(*p.name) > maxEntityName || !utf8.ValidString(*p.name):
			return e, protocolErrorf(kerr.InvalidRequest,
				"The name of a %s has at most %d bytes, valid UTF-8. Give a default quota to clients with longer names.", p.kind, maxEntityName)
		default:
			*n = quota.Of(*p.name)
		}
	}
	if !e.Valid() {
		return e, protocolErrorf(kerr.InvalidRequest,
			"Invalid quota entity combination, IP entity should not be combined with User or ClientId")
	}
	if e.Address.Kind == quota.Named {
		ip, err := netip.ParseAddr(e.Address.Text)
		if err != nil || ip.Zone() != "" {
			return e, protocolErrorf(kerr.InvalidRequest,
				"%s is not a valid IP address. Host names are not resolved: name their addresses.", e.Address.Text)
		}
		e.Address = quota.Of(quota.AddressText(ip))
	}
	return e, nil
}

// compareEntities orders entities by their texts.
func compareEntities(a, b quota.Entity) int {
	return cmp.Or(compareNames(a.User, b.User), compareNames(a.Client, b.Client), compareNames(a.Address, b.Address))
}

func compareNames(a, b quota.Name) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Text, b.Text))
}
