package acl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Filter selects bindings, as the requests that list and delete them do. nil texts and the values
// named Any stand for all.
type Filter struct {
	Type       ResourceType
	Name       *string
	Pattern    Pattern // Match: the bindings of Literal and Prefixed that are about the name
	Principal  *string
	Host       *string
	Operation  Operation
	Permission Permission
}

// AllBindings returns the filter that selects every binding.
func AllBindings() Filter {
	return Filter{Type: TypeAny, Pattern: PatternAny, Operation: OperationAny, Permission: PermissionAny}
}

// Matches reports whether a filter selects a binding.
func (f *Filter) Matches(b *Binding) bool {
	text := func(want *string, got string) bool { return want == nil || *want == got }
	return (f.Type == TypeAny || f.Type == b.Type) && f.matchesName(b) && text(f.Principal, b.Principal) && text(f.Host, b.Host) &&
		(f.Operation == OperationAny || f.Operation == b.Operation) &&
		(f.Permission == PermissionAny || f.Permission == b.Permission)
}

func (f *Filter) matchesName(b *Binding) bool {
	switch {
	case f.Pattern != PatternAny && f.Pattern != Match && f.Pattern != b.Pattern:
		return false
	case f.Name == nil:
		return true
	case f.Pattern != Match:
		return *f.Name == b.Name
	case b.Pattern == Prefixed:
		return strings.HasPrefix(*f.Name, b.Name)
	}
	return *f.Name == b.Name || b.Name == Wildcard
}

// Unknown returns which part of a filter has a value that this version of chronik does not know,
// in Kafka's words; empty if all are known.
func (f *Filter) Unknown() string {
	switch {
	case f.Type == TypeUnknown || f.Type >= types || f.Pattern == PatternUnknown || f.Pattern >= patterns:
		return "Unknown patternFilter."
	case f.Operation == OperationUnknown || f.Operation >= operations || f.Permission == PermissionUnknown ||
		f.Permission >= permissions:
		return "Unknown entryFilter."
	}
	return ""
}

// MaxName bounds the name of a binding in bytes. So what is behind it in the name of a resource
// decides nothing.
const MaxName = 1024

// The bounds of a binding's other texts, in bytes.
const (
	maxTopic     = 249 // no topic has a longer name
	maxPrincipal = 1024
	maxHost      = 256
)

// Check returns why a binding can't be stored, empty if it can. Where Kafka refuses a binding, the
// words are Kafka's. Like Kafka, Check takes operations that the resource does not have, and hosts
// that are no address: they apply to nothing.
func (b *Binding) Check() string {
	limit := MaxName
	if b.Type == Topic {
		limit = maxTopic
	}
	switch {
	case b.Type <= TypeAny || b.Type >= types:
		return "Invalid resourceType " + b.Type.String()
	case b.Type == Cluster && b.Name != ClusterName:
		return "The only valid name for the CLUSTER resource is " + ClusterName
	case b.Name == "":
		return "Invalid empty resource name"
	case b.Pattern != Literal && b.Pattern != Prefixed:
		return "Invalid patternType " + b.Pattern.String()
	case b.Operation <= OperationAny || b.Operation >= operations:
		return "Invalid operation " + b.Operation.String()
	case b.Permission != Deny && b.Permission != Allow:
		return "Invalid permissionType " + b.Permission.String()
	case !strings.Contains(b.Principal, ":"):
		return "Could not parse principal from `" + b.Principal +
			"` (no colon is present separating the principal type from the principal name)"
	case len(b.Name) > limit:
		return tooLong("resource name", len(b.Name), limit)
	case len(b.Principal) > maxPrincipal:
		return tooLong("principal", len(b.Principal), maxPrincipal)
	case len(b.Host) > maxHost:
		return tooLong("host", len(b.Host), maxHost)
	case !utf8.ValidString(b.Name) || !utf8.ValidString(b.Principal) || !utf8.ValidString(b.Host):
		return "resource name, principal and host must be valid UTF-8"
	}
	return ""
}

func tooLong(what string, n, limit int) string {
	return fmt.Sprintf("the %s has %d bytes, %d are allowed", what, n, limit)
}
