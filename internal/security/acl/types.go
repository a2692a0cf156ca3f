package acl

import (
	"fmt"
	"strings"
)

// ResourceType is the kind of a resource, with the code of Kafka's ResourceType.
type ResourceType uint8

// The types of resources. TypeAny is for filters only.
const (
	TypeUnknown ResourceType = iota
	TypeAny
	Topic
	Group
	Cluster
	TransactionalID
	DelegationToken
	User
	types // their number
)

// Pattern is how the name of a binding is compared, with the code of Kafka's PatternType.
type Pattern uint8

// The patterns. PatternAny and Match are for filters only: Match finds the bindings of all patterns
// that apply to a name.
const (
	PatternUnknown Pattern = iota
	PatternAny
	Match
	Literal
	Prefixed
	patterns
)

// Permission is what a binding does, with the code of Kafka's AclPermissionType.
type Permission uint8

// The permissions. PermissionAny is for filters only.
const (
	PermissionUnknown Permission = iota
	PermissionAny
	Deny
	Allow
	permissions
)

// Operation is what a client wants to do, with the code of Kafka's AclOperation.
type Operation uint8

// The operations. OperationAny is for filters only.
const (
	OperationUnknown Operation = iota
	OperationAny
	All
	Read
	Write
	Create
	Delete
	Alter
	Describe
	ClusterAction
	DescribeConfigs
	AlterConfigs
	IdempotentWrite
	CreateTokens
	DescribeTokens
	TwoPhaseCommit
	operations
)

// Names that have a meaning of their own.
const (
	// Wildcard stands for every name in a literal pattern, and for every host.
	Wildcard = "*"
	// Everybody is the principal of bindings that apply to all users.
	Everybody = "User:*"
	// ClusterName is the only name of a resource of the type Cluster.
	ClusterName = "kafka-cluster"
)

// Mask is a set of operations: the bit of an operation is its code. It has no bit for All.
type Mask uint32

// Everything is the set of all operations.
const Everything Mask = 1<<operations - 1<<Read

// Has reports whether a set has an operation. All is in it if every operation is.
func (m Mask) Has(op Operation) bool {
	if op == All {
		return m&Everything == Everything
	}
	return op < operations && m>>op&1 != 0
}

// Of returns the set of some operations.
func Of(ops ...Operation) Mask {
	var m Mask
	for _, op := range ops {
		if op == All {
			return Everything
		}
		m |= 1 << op
	}
	return m
}

// Supported returns the operations that resources of a type have, as KIP-430 reports them for a
// client that may do everything.
func Supported(t ResourceType) Mask {
	switch t {
	case Topic:
		return Of(Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs)
	case Group:
		return Of(Read, Delete, Describe, DescribeConfigs, AlterConfigs)
	case Cluster:
		return Of(Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite)
	case TransactionalID:
		return Of(Write, Describe, TwoPhaseCommit)
	case DelegationToken:
		return Of(Describe)
	case User:
		return Of(CreateTokens, DescribeTokens)
	}
	return 0
}

// Binding is one ACL: who may, or may not, do what with which resources.
type Binding struct {
	Type       ResourceType `json:"type"`
	Name       string       `json:"name"` // a name, its beginning, or Wildcard with Literal
	Pattern    Pattern      `json:"pattern"`
	Principal  string       `json:"principal"` // such as "User:bob", or Everybody
	Host       string       `json:"host"`      // an address as text, or Wildcard
	Operation  Operation    `json:"operation"`
	Permission Permission   `json:"permission"`
}

// String returns a binding as a sentence, such as
// "ALLOW User:bob READ on TOPIC LITERAL orders from *".
func (b Binding) String() string {
	return fmt.Sprintf("%v %s %v on %v %v %s from %s", b.Permission, b.Principal, b.Operation, b.Type, b.Pattern, b.Name, b.Host)
}

// Written returns the name of a type, operation, pattern or permission as chronikctl writes it.
func Written(name fmt.Stringer) string {
	return strings.ToLower(strings.ReplaceAll(name.String(), "_", "-"))
}

func typeNames() []string {
	return []string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
}

func patternNames() []string { return []string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"} }

func permissionNames() []string { return []string{"UNKNOWN", "ANY", "DENY", "ALLOW"} }

func operationNames() []string {
	return []string{
		"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
		"ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
	}
}

// String returns the name of a type as Kafka's tools write it.
func (t ResourceType) String() string { return nameOf(typeNames(), uint8(t)) }

// String returns the name of a pattern as Kafka's tools write it.
func (p Pattern) String() string { return nameOf(patternNames(), uint8(p)) }

// String returns the name of a permission as Kafka's tools write it.
func (p Permission) String() string { return nameOf(permissionNames(), uint8(p)) }

// String returns the name of an operation as Kafka's tools write it.
func (o Operation) String() string { return nameOf(operationNames(), uint8(o)) }

func nameOf(names []string, code uint8) string {
	if int(code) < len(names) {
		return names[code]
	}
	return names[0]
}

// ParseResourceType returns the type of a name as Kafka's tools write or take it: upper and lower
// case, '-' and '_' make no difference. So do the other parsers.
func ParseResourceType(s string) (ResourceType, error) {
	code, err := parse("resource type", typeNames(), s)
	return ResourceType(code), err
}

// ParsePermission returns the permission of a name.
func ParsePermission(s string) (Permission, error) {
	code, err := parse("permission", permissionNames(), s)
	return Permission(code), err
}

// ParseOperation returns the operation of a name.
func ParseOperation(s string) (Operation, error) {
	code, err := parse("operation", operationNames(), s)
	return Operation(code), err
}

func parse(what string, names []string, s string) (uint8, error) {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToUpper(s)) }
	for code, name := range names {
		if code > 0 && plain(name) == plain(s) {
			return uint8(code), nil
		}
	}
	known := strings.ToLower(strings.ReplaceAll(strings.Join(names[1:], ", "), "_", "-"))
	return 0, fmt.Errorf("%q is no %s: take one of %s", s, what, known)
}
