package acl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	alice = "User:alice"
	local = "127.0.0.1"
)

// on returns a binding of alice on topics. The name is a prefix if it ends with "…".
func on(permission Permission, op Operation, name string, edit ...func(*Binding)) Binding {
	b := Binding{Type: Topic, Name: name, Pattern: Literal, Principal: alice, Host: "*", Operation: op, Permission: permission}
	if begins, ok := strings.CutSuffix(name, "…"); ok {
		b.Name, b.Pattern = begins, Prefixed
	}
	for _, e := range edit {
		e(&b)
	}
	return b
}

func by(principal string) func(*Binding) { return func(b *Binding) { b.Principal = principal } }

func from(host string) func(*Binding) { return func(b *Binding) { b.Host = host } }

// What Apache Kafka 4.3.1 answered, without and with allow.everyone.if.no.acl.found.
func TestTrickyRulesMatchKafka(t *testing.T) {
	for _, c := range []struct {
		what     string
		rules    []Binding
		op       Operation
		name     string
		want     bool
		everyone bool // the answer with allow.everyone
	}{
		{"READ implies DESCRIBE", []Binding{on(Allow, Read, "a")}, Describe, "a", true, true},
		{"ALTER_CONFIGS implies DESCRIBE_CONFIGS", []Binding{on(Allow, AlterConfigs, "a")}, DescribeConfigs, "a", true, true},
		{"CREATE does not imply DESCRIBE", []Binding{on(Allow, Create, "a")}, Describe, "a", false, false},
		{"ALTER_CONFIGS does not imply DESCRIBE", []Binding{on(Allow, AlterConfigs, "a")}, Describe, "a", false, false},
		{"a denied DESCRIBE leaves READ", []Binding{on(Allow, Read, "a"), on(Deny, Describe, "a")}, Read, "a", true, true},
		{"a denied DESCRIBE wins", []Binding{on(Allow, Read, "a"), on(Deny, Describe, "a")}, Describe, "a", false, false},
		{"a denied READ denies no DESCRIBE", []Binding{on(Allow, All, "a"), on(Deny, Read, "a")}, Describe, "a", true, true},
		{"a denied prefix", []Binding{on(Allow, Read, "abc"), on(Deny, Read, "a…")}, Read, "abc", false, false},
		{"a denied wildcard", []Binding{on(Allow, Read, "abc"), on(Deny, Read, "*")}, Read, "abc", false, false},
		{"everybody is denied", []Binding{on(Allow, Read, "abc"), on(Deny, Read, "abc", by(Everybody))}, Read, "abc", false, false},
		{"another host is denied", []Binding{on(Allow, Read, "a"), on(Deny, All, "a", from("10.0.0.1"))}, Read, "a", true, true},
		{"a network is no host", []Binding{on(Allow, Read, "a", from("127.0.0.0/8"))}, Read, "a", false, false},
		{"a mapped address is no host", []Binding{on(Allow, Read, "a", from("::ffff:127.0.0.1"))}, Read, "a", false, false},
		{"names that begin with a star", []Binding{on(Allow, Read, "*…")}, Read, "a", false, true},
		{"the prefix itself", []Binding{on(Allow, Read, "a…")}, Read, "a", true, true},
		{"a longer prefix", []Binding{on(Allow, Read, "ab…")}, Read, "a", false, true},
		{"a principal of another type", []Binding{on(Allow, Read, "a", by("Group:alice"))}, Read, "a", false, false},
		{"upper and lower case differ", []Binding{on(Allow, Read, "a", by("user:alice"))}, Read, "a", false, false},
		{"another user", []Binding{on(Allow, Read, "a", by("User:bob"))}, Read, "a", false, false},
		{"another user at another host", []Binding{on(Allow, Read, "a", by("User:bob"), from("10.0.0.1"))}, Read, "a", false, false},
		{"a literal is no prefix", []Binding{on(Allow, Read, "a", by("User:bob"))}, Read, "ab", false, true},
		{"another operation is denied", []Binding{on(Deny, Delete, "a")}, Read, "a", false, false},
		{"a group of that name", []Binding{on(Allow, Read, "a", func(b *Binding) { b.Type = Group })}, Read, "a", false, true},
	} {
		for everyone, want := range map[bool]bool{false: c.want, true: c.everyone} {
			o := Options{AllowEveryone: everyone}
			if got := Compile(c.rules, o).Subject(alice, local).Allowed(c.op, Topic, c.name); got != want {
				t.Errorf("%s (everyone %t): %t", c.what, everyone, got)
			}
			if got := allowed(c.rules, o, alice, local, c.op, Topic, c.name); got != want {
				t.Errorf("reference, %s (everyone %t): %t", c.what, everyone, got)
			}
		}
	}
}

func TestSuperUsersMayDoEverything(t *testing.T) {
	r := Compile([]Binding{on(Deny, All, "*", by(Everybody))}, Options{SuperUsers: []string{alice}})
	s := r.Subject(alice, local)
	if s.Operations(Topic, "a") != Everything || !s.AllowedAny(Write, Topic) || !s.Allowed(Alter, Cluster, ClusterName) {
		t.Error("a super user is denied something")
	}
	if bob := r.Subject("User:bob", local); bob.Operations(Topic, "a") != 0 || bob.AllowedAny(Read, Topic) {
		t.Error("another user is allowed something")
	}
}

func TestWithoutRulesEverythingIsAllowed(t *testing.T) {
	s := (*Rules)(nil).Subject(alice, local)
	if s.Operations(Cluster, ClusterName) != Everything || !s.Allowed(All, Topic, "x") || !s.AllowedAny(Write, Topic) {
		t.Error("without rules something is denied")
	}
	if e := (*Rules)(nil).Explain(alice, local, Read, Topic, "x"); !e.Allowed || e.Reason != Off {
		t.Errorf("%+v", e)
	}
}

// Neither a binding nor AllowEveryone lets a client change an internal topic. Super users may.
func TestInternalTopics(t *testing.T) {
	for _, everyone := range []bool{false, true} {
		o := Options{SuperUsers: []string{"User:root"}, AllowEveryone: everyone, Internal: []string{"in"}}
		rules := []Binding{on(Allow, All, "*")}
		if everyone {
			rules = nil
		}
		r := Compile(nil, o).Change(nil, rules)
		for op := Read; op < operations; op++ {
			want := op != Write && op != Delete && op != Alter && op != AlterConfigs
			e := r.Explain(alice, local, op, Topic, "in")
			if got := r.Subject(alice, local).Allowed(op, Topic, "in"); got != want || e.Allowed != want || (e.Reason == Internal) == want {
				t.Errorf("%v: %t, explained as %+v", op, got, e)
			}
			if !r.Subject("User:root", local).Allowed(op, Topic, "in") || !r.Subject(alice, local).Allowed(op, Topic, "out") ||
				everyone && !r.Subject(alice, local).Allowed(op, Group, "in") {
				t.Errorf("%v is refused on another resource, or to a super user", op)
			}
		}
	}
}

// Java writes IPv6 addresses in another form.
func TestOneIPv6AddressHasSeveralTexts(t *testing.T) {
	r := Compile([]Binding{on(Allow, Read, "a", from("0:0:0:0:0:0:0:1")), on(Deny, Read, "b", from("FE80::1%eth0")), on(Allow, Read, "b")},
		Options{})
	if !r.Subject(alice, "::1").Allowed(Read, Topic, "a") || r.Subject(alice, "::2").Allowed(Read, Topic, "a") {
		t.Error("::1 is not 0:0:0:0:0:0:0:1")
	}
	zone := r.Subject(alice, "fe80:0:0:0:0:0:0:1%eth0")
	if zone.Allowed(Read, Topic, "b") || !r.Subject(alice, "fe80::1%eth1").Allowed(Read, Topic, "b") {
		t.Error("the zone of an address counts")
	}
}

// The numbers that Kafka answers to a client that may do everything (KIP-430).
func TestSupportedOperationsAreKafkas(t *testing.T) {
	for kind, want := range map[ResourceType]Mask{Topic: 3576, Group: 3400, Cluster: 8096, TransactionalID: 33040,
		DelegationToken: 256, User: 24576, TypeAny: 0} {
		if got := Supported(kind); got != want {
			t.Errorf("%v: %d, want %d", kind, got, want)
		}
	}
	if !Everything.Has(All) || (Everything &^ Of(Read)).Has(All) || Of(All) != Everything || Everything.Has(operations) {
		t.Error("All is every operation")
	}
}

func anyBinding() *rapid.Generator[Binding] {
	return rapid.Custom(func(t *rapid.T) Binding {
		return Binding{
			Type:       rapid.SampledFrom([]ResourceType{Topic, Topic, Topic, Group, Cluster, TypeAny, 99}).Draw(t, "type"),
			Name:       rapid.SampledFrom(names()).Draw(t, "name"),
			Pattern:    rapid.SampledFrom([]Pattern{Literal, Prefixed}).Draw(t, "pattern"),
			Principal:  rapid.SampledFrom([]string{alice, "User:bob", Everybody, "Group:alice"}).Draw(t, "principal"),
			Host:       rapid.SampledFrom([]string{"*", "*", local, "10.0.0.1", "::1"}).Draw(t, "host"),
			Operation:  Operation(rapid.IntRange(int(All), int(operations)-1).Draw(t, "operation")),
			Permission: rapid.SampledFrom([]Permission{Allow, Allow, Deny}).Draw(t, "permission"),
		}
	})
}

func names() []string {
	return []string{"*", "a", "ab", "abc", "abd", "b", "ac", "a*", "hard", "hardcode", "é"}
}

// agree compares rules with the reference, for all that may be asked.
func agree(t *rapid.T, r *Rules, bindings []Binding, o Options) {
	for _, who := range []string{alice, "User:bob", "User:carol", Everybody} {
		for _, host := range []string{local, "::1", "10.0.0.2"} {
			s := r.Subject(who, host)
			for op := Read; op < operations; op++ {
				for _, name := range append(names(), "abcd", "", "z") {
					want := allowed(bindings, o, who, host, op, Topic, name)
					if got := s.Allowed(op, Topic, name); got != want {
						t.Fatalf("%s from %s: %v on %q: %t, reference %t\nof %v", who, host, op, name, got, want, bindings)
					}
				}
				// Kafka's search for any name knows no implied operations; only those that nothing
				// implies are asked for in this way.
				if op != Describe && op != DescribeConfigs {
					if got, want := s.AllowedAny(op, Topic), allowedAny(bindings, o, who, host, op, Topic); got != want {
						t.Fatalf("%s from %s: %v on any: %t, reference %t\nof %v", who, host, op, got, want, bindings)
					}
				}
			}
		}
	}
}

func TestCompiledRulesDecideLikeALoopOverAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{AllowEveryone: rapid.Bool().Draw(t, "everyone"), SuperUsers: []string{"User:carol"}}
		bindings := rapid.SliceOfN(anyBinding(), 0, 12).Draw(t, "bindings")
		agree(t, Compile(bindings, o), bindings, o)
	})
}

// Rules after changes decide like rules that were compiled at once, and like the reference. They
// share what no change was about.
func TestChangedRulesAreLikeThoseCompiledAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{AllowEveryone: rapid.Bool().Draw(t, "everyone")}
		r := Compile(nil, o)
		now := map[Binding]bool{}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			added := rapid.SliceOfN(anyBinding(), 0, 6).Draw(t, "added")
			removed := rapid.SliceOfN(anyBinding(), 0, 2).Draw(t, "others")
			for b := range now {
				if rapid.Bool().Draw(t, "removed") && !slices.Contains(added, b) {
					removed = append(removed, b)
				}
			}
			removed = slices.DeleteFunc(removed, func(b Binding) bool { return slices.Contains(added, b) })
			touched := map[string]bool{}
			for _, b := range removed {
				delete(now, b)
				touched[b.Principal] = true
			}
			for _, b := range added {
				now[b] = true
				touched[b.Principal] = true
			}
			prev := r
			r = r.Change(removed, added)
			for name, p := range prev.principals {
				if !touched[name] && r.principals[name] != p {
					t.Fatalf("%s was compiled again", name)
				}
			}
		}
		var bindings []Binding
		for b := range now {
			bindings = append(bindings, b)
		}
		if whole := Compile(bindings, o); r.Len() != len(bindings) || whole.Len() != r.Len() || len(whole.principals) != len(r.principals) {
			t.Fatalf("%d rules of %d, %d at once", r.Len(), len(bindings), whole.Len())
		}
		agree(t, r, bindings, o)
	})
}

// An explanation decides like the rules. The bindings that it names are enough to decide.
func TestExplanationsAgreeWithDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{AllowEveryone: rapid.Bool().Draw(t, "everyone"), SuperUsers: []string{"User:carol"}}
		bindings := rapid.SliceOfN(anyBinding(), 0, 12).Draw(t, "bindings")
		r := Compile(bindings, o)
		who := rapid.SampledFrom([]string{alice, "User:bob", "User:carol"}).Draw(t, "who")
		op := Operation(rapid.IntRange(int(Read), int(operations)-1).Draw(t, "operation"))
		name := rapid.SampledFrom(names()).Draw(t, "name")
		e := r.Explain(who, local, op, Topic, name)
		if want := r.Subject(who, local).Allowed(op, Topic, name); e.Allowed != want {
			t.Fatalf("%+v, but %t", e, want)
		}
		switch e.Reason {
		case Denied, Permitted:
			if len(e.Rules) == 0 || allowed(e.Rules, Options{}, who, local, op, Topic, name) != e.Allowed {
				t.Fatalf("%+v", e)
			}
			for _, b := range e.Rules {
				if (b.Permission == Allow) != e.Allowed || !slices.Contains(bindings, b) {
					t.Fatalf("%+v does not decide", b)
				}
			}
		default:
			if len(e.Rules) > 0 {
				t.Fatalf("%+v", e)
			}
		}
		for _, b := range e.Almost {
			fits := (b.Principal == who || b.Principal == Everybody) && (b.Host == local || b.Host == "*")
			if e.Reason != NoPermission || !b.Covers(Topic, name) || fits {
				t.Fatalf("%v: %+v", b, e)
			}
		}
	})
}

// An explanation names everything that decides or nearly does, in the order of Compare.
func TestExplanationsAreWhole(t *testing.T) {
	of := func(principal, host string, op Operation, p Permission) Binding {
		return Binding{Type: Topic, Name: "t", Pattern: Literal, Principal: principal, Host: host, Operation: op, Permission: p}
	}
	allow, all := of(alice, "*", Read, Allow), of(alice, local, All, Allow)
	deny, everybody := of(alice, local, Read, Deny), of(Everybody, "*", All, Deny)
	bob, elsewhere, write := of("User:bob", "*", Read, Allow), of(alice, "10.9.9.9", Read, Deny), of(alice, "*", Write, Allow)
	for _, c := range []struct {
		bindings []Binding
		reason   Reason
		rules    []Binding
		almost   []Binding
	}{
		{[]Binding{allow, all, bob}, Permitted, []Binding{allow, all}, nil},
		{[]Binding{all, allow, bob}, Permitted, []Binding{allow, all}, nil},
		{[]Binding{allow, deny, everybody, bob}, Denied, []Binding{deny, everybody}, nil},
		{[]Binding{everybody, deny, allow}, Denied, []Binding{deny, everybody}, nil},
		{[]Binding{bob, elsewhere, write}, NoPermission, nil, []Binding{bob, elsewhere}},
		{[]Binding{elsewhere, bob}, NoPermission, nil, []Binding{bob, elsewhere}},
		{nil, NoPermission, nil, nil},
	} {
		slices.SortFunc(c.rules, Compare)
		slices.SortFunc(c.almost, Compare)
		e := Compile(c.bindings, Options{}).Explain(alice, local, Read, Topic, "t")
		if e.Reason != c.reason || e.Allowed != (c.reason == Permitted) || !slices.Equal(e.Rules, c.rules) ||
			c.reason == NoPermission && !slices.Equal(e.Almost, c.almost) {
			t.Errorf("%v: %+v", c.bindings, e)
		}
	}
}

func TestNamesAreParsedAsKafkasToolsWriteThem(t *testing.T) {
	for op := OperationAny; op < operations; op++ {
		for _, s := range []string{op.String(), strings.ToLower(op.String()), strings.ReplaceAll(op.String(), "_", ""),
			strings.ReplaceAll(strings.ToLower(op.String()), "_", "-")} {
			if got, err := ParseOperation(s); err != nil || got != op {
				t.Errorf("%s: %v %v", s, got, err)
			}
		}
	}
	for kind := TypeAny; kind < types; kind++ {
		if got, err := ParseResourceType(kind.String()); err != nil || got != kind {
			t.Errorf("%v: %v %v", kind, got, err)
		}
	}
	for _, p := range []Permission{PermissionAny, Deny, Allow} {
		if got, err := ParsePermission(p.String()); err != nil || got != p {
			t.Errorf("%v: %v %v", p, got, err)
		}
	}
	if _, err := ParseOperation("fly"); err == nil || !strings.Contains(err.Error(), "describe-configs") {
		t.Errorf("%v", err)
	}
	if _, err := ParseOperation("unknown"); err == nil || Operation(99).String() != "UNKNOWN" {
		t.Error("UNKNOWN is no operation")
	}
}

// many returns the rules of a busy cluster: 10,000 of 100 principals, a tenth for all names, two
// fifths for prefixes, some for one host, some that deny.
func many() []Binding {
	list := make([]Binding, 0, 10_000)
	for i := range 10_000 {
		b := Binding{Type: Topic, Name: fmt.Sprintf("team-%d.topic-%d", i%100, i), Pattern: Literal,
			Principal: fmt.Sprintf("User:%d", i%100), Host: "*", Operation: Operation(int(Read) + i/100%8), Permission: Allow}
		switch {
		case i%10 == 0:
			b.Name = "*"
		case i%10 < 5:
			b.Name, b.Pattern = fmt.Sprintf("team-%d.", i), Prefixed
		}
		if i%50 == 1 {
			b.Host = local
		}
		if i%20 == 2 {
			b.Permission = Deny
		}
		list = append(list, b)
	}
	return list
}

func BenchmarkOperationsOf10000Rules(b *testing.B) {
	s := Compile(many(), Options{}).Subject("User:7", local)
	asked := make([]string, 256)
	for i := range asked {
		asked[i] = fmt.Sprintf("team-%d.topic-%d", i%100, i*13)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Operations(Topic, asked[i%len(asked)])
	}
}

func BenchmarkCompile10000Rules(b *testing.B) {
	list := many()
	b.ReportAllocs()
	for b.Loop() {
		Compile(list, Options{})
	}
}

func BenchmarkOneChangeAmong10000Rules(b *testing.B) {
	r := Compile(many(), Options{})
	added := []Binding{on(Allow, Read, "x", by("User:7"))}
	b.ReportAllocs()
	for b.Loop() {
		r.Change(nil, added)
	}
}

func TestADecisionDoesNotAllocate(t *testing.T) {
	s := Compile(many(), Options{AllowEveryone: true}).Subject("User:7", local)
	if n := testing.AllocsPerRun(100, func() { s.Operations(Topic, "team-7.topic-1007"); s.AllowedAny(Write, Topic) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
