package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
)

func binding(name string, edit ...func(*acl.Binding)) acl.Binding {
	b := acl.Binding{Type: acl.Topic, Name: name, Pattern: acl.Literal, Principal: "User:bob", Host: "*", Operation: acl.Read,
		Permission: acl.Allow}
	for _, e := range edit {
		e(&b)
	}
	return b
}

func bindings(t *testing.T, s metadata.Store) []acl.Binding {
	t.Helper()
	return slices.SortedFunc(image(t, s).ACLs(), acl.Compare)
}

func TestACLsAreCreatedOnceAndDeletedByFilters(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	a, b := binding("a"), binding("b", func(b *acl.Binding) { b.Pattern, b.Operation = acl.Prefixed, acl.All })
	errs, revision, err := c.CreateACLs(ctx, []acl.Binding{a, binding(""), b, a})
	if err != nil || len(errs) != 4 || errs[0] != nil || errs[2] != nil || errs[3] != nil || revision != image(t, s).Version() {
		t.Fatalf("%v at %d, %v", errs, revision, err)
	}
	wantError(t, errs[1], InvalidRequest, "Invalid empty resource name")
	if got := bindings(t, s); !slices.Equal(got, []acl.Binding{a, b}) {
		t.Fatalf("%v", got)
	}
	for _, again := range [][]acl.Binding{{a, b}, {binding("")}, nil} {
		if _, _, err := c.CreateACLs(ctx, again); err != nil || image(t, s).Version() != revision {
			t.Errorf("%v again: written at %d, %v", again, image(t, s).Version(), err)
		}
	}
	byName := func(name string) acl.Filter {
		f := acl.AllBindings()
		f.Name = &name
		return f
	}
	got, revision, err := c.DeleteACLs(ctx, []acl.Filter{byName("a"), {}, byName("none"), byName("a")})
	if err != nil || len(got) != 4 || revision != image(t, s).Version() || len(got[2].Rules) != 0 ||
		!slices.Equal(got[0].Rules, []acl.Binding{a}) || !slices.Equal(got[3].Rules, []acl.Binding{a}) {
		t.Fatalf("%+v at %d, %v", got, revision, err)
	}
	wantError(t, got[1].Err, InvalidRequest, "Unknown patternFilter.")
	if left := bindings(t, s); !slices.Equal(left, []acl.Binding{b}) {
		t.Errorf("left are %v", left)
	}
	if _, _, err := c.DeleteACLs(ctx, []acl.Filter{byName("a")}); err != nil || image(t, s).Version() != revision {
		t.Errorf("nothing deleted: written at %d, %v", image(t, s).Version(), err)
	}
}

// Another request that creates a rule, or deletes it, at the same time is not in the way.
func TestACLsAreWrittenNextToOthers(t *testing.T) {
	ctx := context.Background()
	_, s := cluster(t, 1)
	a := binding("a")
	r := &rival{Store: s, times: 1, act: func() {
		if _, _, err := over(s).CreateACLs(ctx, []acl.Binding{a}); err != nil {
			t.Fatal(err)
		}
	}}
	if errs, _, err := over(r).CreateACLs(ctx, []acl.Binding{a, binding("b")}); err != nil || errs[0] != nil || len(bindings(t, s)) != 2 {
		t.Fatalf("%v %v", errs, err)
	}
	r = &rival{Store: s, times: 1, act: func() {
		if _, _, err := over(s).DeleteACLs(ctx, []acl.Filter{acl.AllBindings()}); err != nil {
			t.Fatal(err)
		}
	}}
	if got, _, err := over(r).DeleteACLs(ctx, []acl.Filter{acl.AllBindings()}); err != nil || len(got[0].Rules) != 0 {
		t.Fatalf("deleted by another request, and reported: %+v %v", got, err)
	}
}

func TestACLsAreBounded(t *testing.T) {
	ctx := context.Background()
	c, _ := cluster(t, 1)
	many := make([]acl.Binding, MaxAtOnce+1)
	for i := range many {
		many[i] = binding(strings.Repeat("x", i%200+1) + string(rune('a'+i/200)))
	}
	_, _, err := c.CreateACLs(ctx, many)
	wantError(t, err, InvalidRequest, "The request creates 1001 ACLs, 1000 are allowed.")
	_, _, err = c.DeleteACLs(ctx, make([]acl.Filter, MaxAtOnce+1))
	wantError(t, err, InvalidRequest, "The request has 1001 filters, 1000 are allowed.")
	if errs, _, err := c.CreateACLs(ctx, many[1:]); err != nil || slices.ContainsFunc(errs, func(e error) bool { return e != nil }) {
		t.Errorf("1000 at once: %v %v", errs, err)
	}
	full := over(&crowded{keys: make([]metadata.KV, MaxEntries)})
	_, _, err = full.CreateACLs(ctx, many[:1])
	var refused *Error
	if !errors.As(err, &refused) || refused.Kind != PolicyViolation || !strings.Contains(refused.Msg, "100000 ACLs") {
		t.Errorf("one more than the cluster may have: %v", err)
	}
}

// crowded is a store that has some keys, whatever it is asked for.
type crowded struct {
	metadata.Store
	keys []metadata.KV
}

func (c *crowded) Range(context.Context, string) ([]metadata.KV, int64, error) { return c.keys, 1, nil }
