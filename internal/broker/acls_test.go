package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// withRules makes a broker that asks access rules. They allow the test's clients everything.
func withRules(o *nodeOptions) {
	o.broker = func(opt *Options) {
		rules := acl.Compile(nil, acl.Options{SuperUsers: []string{"User:ANONYMOUS"}})
		opt.Rules = func() *acl.Rules { return rules }
	}
}

// creation returns a rule that lets bob read a topic.
func creation(topic string, edit ...func(*kmsg.CreateACLsRequestCreation)) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.Principal, c.Host = kmsg.ACLResourceTypeTopic, topic, "User:bob", "*"
	c.Operation, c.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	for _, e := range edit {
		e(&c)
	}
	return c
}

func create(t *testing.T, w *wire, list ...kmsg.CreateACLsRequestCreation) []kmsg.CreateACLsResponseResult {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = list
	return ask[*kmsg.CreateACLsResponse](t, w, 3, req).Results
}

// everyRule returns a request for all rules.
func everyRule() *kmsg.DescribeACLsRequest {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return req
}

// found returns what a filter selects, as text.
func found(t *testing.T, w *wire, req *kmsg.DescribeACLsRequest) []string {
	t.Helper()
	resp := ask[*kmsg.DescribeACLsResponse](t, w, 3, req)
	if resp.ErrorCode != 0 {
		t.Fatalf("%d %s", resp.ErrorCode, *resp.ErrorMessage)
	}
	var list []string
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			list = append(list, acl.Binding{Type: acl.ResourceType(r.ResourceType), Name: r.ResourceName,
				Pattern: acl.Pattern(r.ResourcePatternType), Principal: a.Principal, Host: a.Host,
				Operation: acl.Operation(a.Operation), Permission: acl.Permission(a.PermissionType)}.String())
		}
	}
	return list
}

// Apache Kafka 4.3.1's codes and texts, except where an entry is marked.
func TestRefusedACLsMatchKafka(t *testing.T) {
	n := newNode(t, quick, withRules)
	w := n.dial(t)
	colon := " (no colon is present separating the principal type from the principal name)"
	type edit = func(*kmsg.CreateACLsRequestCreation)
	for _, c := range []struct {
		edit edit
		msg  string
	}{
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = "" }, "Invalid empty resource name"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 4 }, "The only valid name for the CLUSTER resource is kafka-cluster"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "bob" }, "Could not parse principal from `bob`" + colon},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "" }, "Could not parse principal from ``" + colon},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 99 }, "Invalid resourceType UNKNOWN"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Operation = 16 }, "Invalid operation UNKNOWN"},
		// Kafka closes the connection for a 0, and answers -1 without a text for Any and Match.
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 0 }, "Invalid resourceType UNKNOWN"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 1 }, "Invalid resourceType ANY"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = -1 }, "Invalid resourceType UNKNOWN"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType = 2 }, "Invalid patternType MATCH"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Operation = 1 }, "Invalid operation ANY"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.PermissionType = 1 }, "Invalid permissionType ANY"},
		// Kafka stores names and texts of any length.
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = strings.Repeat("x", 250) },
			"the resource name has 250 bytes, 249 are allowed"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "User:" + strings.Repeat("x", 1020) },
			"the principal has 1025 bytes, 1024 are allowed"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.Host = strings.Repeat("x", 257) }, "the host has 257 bytes, 256 are allowed"},
		{func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = "\xff" }, "resource name, principal and host must be valid UTF-8"},
	} {
		got := create(t, w, creation("good"), creation("x", c.edit))
		if got[0].ErrorCode != 0 || got[1].ErrorCode != kerr.InvalidRequest.Code || *got[1].ErrorMessage != c.msg {
			t.Errorf("%+v and %d %s, want %q", got[0], got[1].ErrorCode, *got[1].ErrorMessage, c.msg)
		}
	}
	if got := found(t, w, everyRule()); !slices.Equal(got, []string{"ALLOW User:bob READ on TOPIC LITERAL good from *"}) {
		t.Errorf("%q", got)
	}
	for what, e := range map[string]func(*kmsg.DescribeACLsRequest){
		"Unknown patternFilter.": func(r *kmsg.DescribeACLsRequest) { r.ResourceType = 99 },
		"Unknown entryFilter.":   func(r *kmsg.DescribeACLsRequest) { r.Operation = 0 },
	} {
		req := everyRule()
		e(req)
		if resp := ask[*kmsg.DescribeACLsResponse](t, w, 3, req); resp.ErrorCode != kerr.InvalidRequest.Code || *resp.ErrorMessage != what {
			t.Errorf("%d %v, want %s", resp.ErrorCode, resp.ErrorMessage, what)
		}
	}
}

// Kafka takes all of these; some apply to nothing.
func TestStrangeACLsAreStored(t *testing.T) {
	n := newNode(t, quick, withRules)
	w := n.dial(t)
	got := create(t, w,
		creation("x", func(c *kmsg.CreateACLsRequestCreation) { c.Principal = ":bob" }),
		creation("x", func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "User:" }),
		creation("x", func(c *kmsg.CreateACLsRequestCreation) { c.Host = "" }),
		creation("x", func(c *kmsg.CreateACLsRequestCreation) { c.Host = "host name" }),
		creation("no topic's name!"),
		creation("kafka-cluster", func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType, c.ResourcePatternType = 4, 4 }),
		creation("*", func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType, c.Operation = 4, 13 }),
		creation("tx", func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType, c.Operation = 5, 15 }))
	for i, r := range got {
		if r.ErrorCode != 0 || r.ErrorMessage == nil || *r.ErrorMessage != "" {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if got := found(t, w, everyRule()); len(got) != 8 {
		t.Errorf("%q", got)
	}
}

func TestACLFilters(t *testing.T) {
	n := newNode(t, quick, withRules)
	w := n.dial(t)
	prefixed := func(c *kmsg.CreateACLsRequestCreation) { c.ResourcePatternType = 4 }
	create(t, w, creation("ab"), creation("a", prefixed), creation("*"), creation("b"),
		creation("ab", func(c *kmsg.CreateACLsRequestCreation) {
			c.Principal, c.Host, c.Operation, c.PermissionType = "User:eve", "::1", 4, 2
		}),
		creation("ab", func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 3 }))
	const (
		star, a, ab, eve = "ALLOW User:bob READ on TOPIC LITERAL * from *", "ALLOW User:bob READ on TOPIC PREFIXED a from *",
			"ALLOW User:bob READ on TOPIC LITERAL ab from *", "DENY User:eve WRITE on TOPIC LITERAL ab from ::1"
		b, group = "ALLOW User:bob READ on TOPIC LITERAL b from *", "ALLOW User:bob READ on GROUP LITERAL ab from *"
	)
	for _, c := range []struct {
		what string
		edit func(*kmsg.DescribeACLsRequest)
		want []string
	}{
		{"all", func(*kmsg.DescribeACLsRequest) {}, []string{star, a, ab, eve, b, group}},
		{"a name, of any pattern", func(r *kmsg.DescribeACLsRequest) { r.ResourceName = kmsg.StringPtr("ab") }, []string{ab, eve, group}},
		{"what is about a topic", func(r *kmsg.DescribeACLsRequest) {
			r.ResourceType, r.ResourceName, r.ResourcePatternType = 2, kmsg.StringPtr("ab"), 2
		}, []string{star, a, ab, eve}},
		{"prefixes", func(r *kmsg.DescribeACLsRequest) { r.ResourcePatternType = 4 }, []string{a}},
		{"a prefix", func(r *kmsg.DescribeACLsRequest) { r.ResourceName, r.ResourcePatternType = kmsg.StringPtr("ab"), 4 }, nil},
		{"of eve", func(r *kmsg.DescribeACLsRequest) { r.Principal = kmsg.StringPtr("User:eve") }, []string{eve}},
		{"of a host", func(r *kmsg.DescribeACLsRequest) { r.Host = kmsg.StringPtr("::1") }, []string{eve}},
		{"to write", func(r *kmsg.DescribeACLsRequest) { r.Operation = 4 }, []string{eve}},
		{"that deny", func(r *kmsg.DescribeACLsRequest) { r.PermissionType = 2 }, []string{eve}},
		{"of no principal", func(r *kmsg.DescribeACLsRequest) { r.Principal = kmsg.StringPtr("eve") }, nil},
		{"an empty name", func(r *kmsg.DescribeACLsRequest) { r.ResourceName = kmsg.StringPtr("") }, nil},
	} {
		req := everyRule()
		c.edit(req)
		if got := found(t, w, req); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	filter := func(topic string) kmsg.DeleteACLsRequestFilter {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.Operation, f.PermissionType = 2, &topic, 1, 1
		return f
	}
	drop := kmsg.NewPtrDeleteACLsRequest()
	unknown := filter("b")
	unknown.Operation = 16
	drop.Filters = []kmsg.DeleteACLsRequestFilter{filter("ab"), unknown, filter("none"), filter("ab")}
	results := ask[*kmsg.DeleteACLsResponse](t, w, 3, drop).Results
	for i, want := range []int{2, 0, 0, 2} {
		if len(results[i].MatchingACLs) != want || (results[i].ErrorCode != 0) != (i == 1) {
			t.Errorf("filter %d: %+v", i, results[i])
		}
	}
	if *results[1].ErrorMessage != "Unknown entryFilter." || results[0].ErrorMessage != nil {
		t.Errorf("%+v", results)
	}
	if m := results[0].MatchingACLs[1]; m.Principal != "User:eve" || m.Host != "::1" || m.Operation != 4 || m.PermissionType != 2 ||
		m.ResourceName != "ab" || m.ResourceType != 2 || m.ResourcePatternType != 3 {
		t.Errorf("%+v", m)
	}
	if got := found(t, w, everyRule()); !slices.Equal(got, []string{star, a, b, group}) {
		t.Errorf("left: %q", got)
	}
}

// Without authorization there are no rules to see or to change, as in Kafka without an authorizer.
func TestACLsNeedAuthorization(t *testing.T) {
	n := newNode(t, quick)
	w := n.dial(t)
	const remedy = ". Set authorization: acl in the broker's configuration."
	describe := ask[*kmsg.DescribeACLsResponse](t, w, 3, everyRule())
	if describe.ErrorCode != kerr.SecurityDisabled.Code || *describe.ErrorMessage != "No Authorizer is configured on the broker"+remedy {
		t.Errorf("%+v", describe)
	}
	for _, r := range create(t, w, creation("a"), creation("b")) {
		if r.ErrorCode != kerr.SecurityDisabled.Code || *r.ErrorMessage != "No Authorizer is configured"+remedy {
			t.Errorf("%+v", r)
		}
	}
	drop := kmsg.NewPtrDeleteACLsRequest()
	drop.Filters = make([]kmsg.DeleteACLsRequestFilter, 2)
	results := ask[*kmsg.DeleteACLsResponse](t, w, 3, drop).Results
	if len(results) != 2 || results[1].ErrorCode != kerr.SecurityDisabled.Code {
		t.Errorf("%+v", results)
	}
	if n.image().NumACLs() != 0 {
		t.Error("a rule was stored")
	}
}

// When the answer arrives, the rule is in the image of the broker that answers.
func TestACreatedACLIsVisible(t *testing.T) {
	n := newNode(t, quick, withRules)
	w := n.dial(t)
	for _, name := range []string{"a", "b", "c"} {
		create(t, w, creation(name))
		if !slices.ContainsFunc(slices.Collect(n.image().ACLs()), func(a acl.Binding) bool { return a.Name == name }) {
			t.Fatalf("%s is not there", name)
		}
	}
}
