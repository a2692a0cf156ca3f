package quota

import (
	"fmt"
	"math"
	"strings"
)

// Limit is what a quota bounds.
type Limit uint8

// The limits, in Kafka's order.
const (
	Produced    Limit = iota // bytes of Produce requests, a second
	Fetched                  // bytes of records in answers to Fetch, a second
	RequestTime              // time of one processor, in percent
	Mutations                // partitions created or deleted, a second
	Connections              // new connections of an address (of a /64, by default), a second
	numLimits
)

var limitNames = [numLimits]string{
	"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate",
}

// String returns the limit's name in Kafka's requests and tools.
func (l Limit) String() string { return limitNames[l] }

// ParseLimit is the inverse of Limit.String.
func ParseLimit(name string) (Limit, bool) {
	for l, n := range limitNames {
		if n == name {
			return Limit(l), true
		}
	}
	return 0, false
}

// LimitNames returns the names of all limits, in Kafka's order.
func LimitNames() []string { return limitNames[:] }

// OfAddress reports whether the limit is one of addresses, not of users and client ids.
func (l Limit) OfAddress() bool { return l == Connections }

// maxFraction is how far a value may be from the next whole number to count as that.
const maxFraction = 1e-6

// Check returns why a value is not allowed, in Kafka's words; empty if it is. In contrast to Kafka
// it also refuses what is not a finite number.
func (l Limit) Check(v float64) string {
	whole := l != RequestTime && l != Mutations
	switch {
	case math.IsNaN(v) || math.IsInf(v, 1):
		return fmt.Sprintf("Quota %s must be a number", l)
	case v <= 0:
		return fmt.Sprintf("Quota %s must be greater than 0", l)
	case l == Connections && v > math.MaxInt32:
		return fmt.Sprintf("Proposed value for %s is too large for an INT.", l)
	case whole && v >= math.MaxInt64:
		return fmt.Sprintf("Proposed value for %s is too large for a LONG.", l)
	case whole && math.Abs(v-math.Round(v)) > maxFraction:
		return fmt.Sprintf("%s cannot be a fractional value.", l)
	}
	return ""
}

// Name is one part of an Entity. The zero value stands for none.
type Name struct {
	Kind NameKind
	Text string // if Kind is Named
}

// NameKind is what a Name stands for.
type NameKind uint8

// The kinds of names.
const (
	None    NameKind = iota
	Default          // everyone without a quota of its own
	Named
)

// Of returns the Name of one user, client id or address.
func Of(text string) Name { return Name{Named, text} }

// MaxOwner is how many bytes of a client id make an owner. A client chooses the id, up to 32 KiB,
// and each owner's is kept; no longer one has a quota of its own.
const MaxOwner = 256

// Distinct returns the part of a client id that decides which quotas apply: at most a byte more
// than an owner has.
func Distinct[T string | []byte](client T) T { return client[:min(len(client), MaxOwner+1)] }

func short(client string) string {
	if len(client) <= MaxOwner {
		return client
	}
	return strings.Clone(client[:MaxOwner])
}

// Any returns the Name of everyone without a quota of its own.
func Any() Name { return Name{Kind: Default} }

// Entity is the owner of a quota: a user, a client id, both, or an address in the form of
// AddressText.
type Entity struct{ User, Client, Address Name }

// Valid reports whether quotas can be for the entity.
func (e Entity) Valid() bool {
	return (e.Address == Name{}) != (e.User == Name{} && e.Client == Name{})
}

// String returns the entity as metrics and messages show it, such as
// "user=bob,client-id=<default>".
func (e Entity) String() string {
	var parts []string
	for _, p := range []struct {
		kind string
		name Name
	}{{"user", e.User}, {"client-id", e.Client}, {"ip", e.Address}} {
		switch p.name.Kind {
		case Named:
			parts = append(parts, p.kind+"="+p.name.Text)
		case Default:
			parts = append(parts, p.kind+"=<default>")
		case None:
		}
	}
	return strings.Join(parts, ",")
}

// Quota is the limits of one entity; 0 stands for none.
type Quota struct {
	Entity
	Limits [numLimits]float64
}
