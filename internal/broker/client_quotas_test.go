package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// entity is parts of an entity such as "user=bob", or "user" for the default.
type entity []string

func (e entity) each(add func(kind string, name *string)) {
	for _, part := range e {
		kind, name, named := strings.Cut(part, "=")
		if named {
			add(kind, &name)
		} else {
			add(kind, nil)
		}
	}
}

// alterQuotas sends one request with one entry, or several equal ones, and returns "code message
// entity" for each in the answer. A value that is not a number removes the limit.
func (n *node) alterQuotas(t *testing.T, validate bool, times int, e entity, limits ...any) string {
	t.Helper()
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	e.each(func(kind string, name *string) {
		entry.Entity = append(entry.Entity, kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: name})
	})
	for i := 0; i < len(limits); i += 2 {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key = limits[i].(string)
		v, set := limits[i+1].(float64)
		op.Value, op.Remove = v, !set
		entry.Ops = append(entry.Ops, op)
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly, req.Entries = validate, slices.Repeat([]kmsg.AlterClientQuotasRequestEntry{entry}, times)
	var got []string
	for _, x := range ask[*kmsg.AlterClientQuotasResponse](t, n.dial(t), 1, req).Entries {
		one := fmt.Sprint(x.ErrorCode, " ", deref(x.ErrorMessage))
		for _, p := range x.Entity {
			one += fmt.Sprintf(" %s=%s", p.Type, deref(p.Name))
		}
		got = append(got, one)
	}
	return strings.Join(got, "; ")
}

// What Kafka 4.3.1 answers to changes of quotas.
func TestAlterClientQuotasAsKafka(t *testing.T) {
	n := newNode(t)
	const produce, time, connect = "producer_byte_rate", "request_percentage", "connection_creation_rate"
	bob, ip := entity{"user=bob"}, entity{"ip=127.9.9.9"}
	for _, c := range []struct {
		times  int
		of     entity
		limits []any
		want   string
	}{
		{1, bob, []any{produce, 0.0}, "42 Quota producer_byte_rate must be greater than 0 user=bob"},
		{1, bob, []any{produce, 1.5}, "42 producer_byte_rate cannot be a fractional value. user=bob"},
		{1, bob, []any{produce, 9.3e18}, "42 Proposed value for producer_byte_rate is too large for a LONG. user=bob"},
		{1, bob, []any{time, 1.5}, "0  user=bob"},
		{1, bob, []any{time, math.NaN()}, "42 Quota request_percentage must be a number user=bob"}, // Kafka allows it
		{1, ip, []any{connect, 3e9}, "42 Proposed value for connection_creation_rate is too large for an INT. ip=127.9.9.9"},
		{1, nil, []any{produce, 1.0}, "42 Invalid empty client quota entity"},
		{1, bob, nil, "0  user=bob"},
		{1, entity{"user="}, []any{produce, 1.0}, "42 Empty user not supported user="},
		{1, entity{"group=x"}, []any{produce, 1.0}, "42 Unhandled client quota entity type: group group=x"},
		{1, entity{"user=bob", "ip=127.9.9.9"}, []any{produce, 1.0}, "42 Invalid quota entity combination, " +
			"IP entity should not be combined with User or ClientId user=bob ip=127.9.9.9"},
		{1, entity{"user=bob", "user=al"}, []any{produce, 1.0}, "0  user=al"},
		{1, ip, []any{produce, 1.0}, "42 Invalid configuration key producer_byte_rate ip=127.9.9.9"},
		{1, bob, []any{connect, 1.0}, "42 Invalid configuration key connection_creation_rate user=bob"},
		{1, bob, []any{"nope", 1.0}, "42 Invalid configuration key nope user=bob"},
		{1, bob, []any{"nope", nil}, "0  user=bob"},
		{1, entity{"ip=::ffff:10.0.0.1"}, []any{connect, 1.0}, "0  ip=10.0.0.1"}, // Kafka keeps the text
		{1, bob, []any{produce, 1.0, produce, 2.0}, "42 Ignoring duplicate entity ClientQuotaEntity(entries={user=bob}) user=bob"},
		{2, bob, []any{produce, 1.0}, "42 Ignoring duplicate entity ClientQuotaEntity(entries={user=bob}) user=bob"},
	} {
		if got := n.alterQuotas(t, true, c.times, c.of, c.limits...); got != c.want {
			t.Errorf("%v %v: %s, want %s", c.of, c.limits, got, c.want)
		}
	}
	if got := n.alterQuotas(t, true, 1, entity{"ip=localhost"}, connect, 1.0); !strings.HasPrefix(got, "42 localhost is not a valid IP") {
		t.Error(got)
	}
	for _, name := range []string{strings.Repeat("x", maxEntityName+1), "\xff"} {
		if got := n.alterQuotas(t, true, 1, entity{"client-id=" + name}, produce, 1.0); !strings.HasPrefix(got,
			"42 The name of a client-id") {
			t.Error(got)
		}
	}
	if got := n.describeQuotas(t, false); got != "" {
		t.Errorf("validated changes were made: %s", got)
	}
}

// describeQuotas sends one request; a component is "user=bob", "user" for the default or "user=*"
// for any.
func (n *node) describeQuotas(t *testing.T, strict bool, components ...string) string {
	t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = strict
	entity(components).each(func(kind string, name *string) {
		c := kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: matchExact, Match: name}
		if name == nil {
			c.MatchType = matchDefault
		} else if *name == "*" {
			c.MatchType, c.Match = matchAny, nil
		}
		req.Components = append(req.Components, c)
	})
	resp := ask[*kmsg.DescribeClientQuotasResponse](t, n.dial(t), 1, req)
	if resp.ErrorCode != 0 {
		return fmt.Sprint(resp.ErrorCode, " ", *resp.ErrorMessage)
	}
	var got []string
	for _, x := range resp.Entries {
		one := ""
		for _, p := range x.Entity {
			one += p.Type + "=" + deref(p.Name) + " "
		}
		for _, v := range x.Values {
			one += fmt.Sprint(v.Value, " ")
		}
		got = append(got, strings.TrimSpace(one))
	}
	return strings.Join(got, "; ")
}

// What Kafka 4.3.1 answers to questions about quotas, sorted.
func TestDescribeClientQuotasAsKafka(t *testing.T) {
	n := newNode(t)
	for _, q := range []struct {
		of     entity
		limits []any
	}{
		{entity{"user=bob"}, []any{"producer_byte_rate", 1000.0, "consumer_byte_rate", 2000.0}},
		{entity{"client-id=app", "user=bob"}, []any{"producer_byte_rate", 1001.0}},
		{entity{"user=bob", "client-id=app"}, []any{"consumer_byte_rate", 1002.0}},
		{entity{"user=bob", "client-id"}, []any{"producer_byte_rate", 1003.0}},
		{entity{"user"}, []any{"producer_byte_rate", 1004.0}},
		{entity{"client-id=app"}, []any{"request_percentage", 150.5}},
		{entity{"user", "client-id"}, []any{"producer_byte_rate", 1006.0}},
		{entity{"ip"}, []any{"connection_creation_rate", 6.0}},
	} {
		if got := n.alterQuotas(t, false, 1, q.of, q.limits...); !strings.HasPrefix(got, "0 ") {
			t.Fatal(got)
		}
	}
	const bob, app, each = "user=bob 2000 1000", "client-id=app user=bob 1002 1001", "client-id= user=bob 1003"
	for _, c := range []struct {
		strict bool
		of     string
		want   string
	}{
		{false, "", "ip= 6; client-id=app 150.5; user= 1004; client-id= user= 1006; " + bob + "; " + each + "; " + app},
		{true, "", ""},
		{false, "user=bob", bob + "; " + each + "; " + app},
		{true, "user=bob", bob},
		{true, "user=bob client-id=*", each + "; " + app},
		{false, "user", "user= 1004; client-id= user= 1006"},
		{true, "user=*", "user= 1004; " + bob},
		{false, "ip=*", "ip= 6"},
		{false, "ip=* user=*", "42 Invalid entity filter component combination. " +
			"IP filter component should not be used with user or clientId filter component."},
		{false, "user=* user=*", "42 Entity type user cannot appear more than once in the filter."},
		{false, "group=*", "35 Unsupported entity type group"},
		{false, "user=", ""},
	} {
		if got := n.describeQuotas(t, c.strict, strings.Fields(c.of)...); got != c.want {
			t.Errorf("%v %q: %s\nwant %s", c.strict, c.of, got, c.want)
		}
	}
	if got := n.alterQuotas(t, false, 1, entity{"user=bob"}, "producer_byte_rate", nil, "consumer_byte_rate", nil); got != "0  user=bob" {
		t.Error(got)
	}
	if got := n.describeQuotas(t, true, "user=bob"); got != "" {
		t.Errorf("a removed quota: %s", got)
	}
}
