package broker

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/audit"
	watching "github.com/chronik-io/chronik/internal/audit/changes"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
	"github.com/chronik-io/chronik/internal/view"
)

// auditLines is an audit.Sink in memory.
type auditLines struct {
	mu   sync.Mutex
	text []string
}

func (l *auditLines) Write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(line))
	return nil
}
func (*auditLines) Flush() error { return nil }
func (*auditLines) Close() error { return nil }

// auditedNode returns a broker whose clients have some rules, and a function that ends its audit
// log and returns the lines by "EVENT OPERATION RESOURCE".
func auditedNode(t *testing.T, mode audit.Mode, rules ...acl.Binding) (*node, func() map[string]map[string]any) {
	out := &auditLines{}
	log := audit.Open(audit.Options{Mode: mode, Sink: audit.Same(out), Node: 1})
	compiled := acl.Compile(rules, acl.Options{})
	n := newNode(t, quick, func(o *nodeOptions) {
		o.broker = func(opt *Options) {
			opt.Rules, opt.Audit, opt.Cluster = func() *acl.Rules { return compiled }, log, &fakeCluster{}
		}
		o.store = func(s metadata.Store) metadata.Store { return watching.Watch(s, log) }
	})
	return n, func() map[string]map[string]any {
		must(t, log.Close(t.Context()))
		events := map[string]map[string]any{}
		for _, text := range out.text {
			var e map[string]any
			must(t, json.Unmarshal([]byte(text), &e))
			res, _ := e["res"].(string)
			op, _ := e["op"].(string)
			events[strings.TrimSpace(e["ev"].(string)+" "+op+" "+res)] = e
		}
		return events
	}
}

func binding(op acl.Operation, t acl.ResourceType, name string, p acl.Permission) acl.Binding {
	return acl.Binding{Type: t, Name: name, Pattern: acl.Literal, Principal: "User:ANONYMOUS", Host: "*", Operation: op, Permission: p}
}

// A refused request has a line with who asked for what and the rule that decides; what a client is
// not shown, and what it may do, has none. A change has one with its client.
func TestAuditOfRequests(t *testing.T) {
	denied := binding(acl.Describe, acl.Topic, "b", acl.Deny)
	n, end := auditedNode(t, audit.Refusals, binding(acl.Create, acl.Topic, "a", acl.Allow), binding(acl.Describe, acl.Topic, "a",
		acl.Allow),
		denied, binding(acl.Describe, acl.Topic, acl.Wildcard, acl.Allow))
	w := n.dial(t)
	create := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"a", "forbidden"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, topic)
	}
	create.TimeoutMillis = 60_000
	ask[*kmsg.CreateTopicsResponse](t, w, 7, create)
	named := kmsg.NewPtrMetadataRequest()
	for _, name := range []string{"a", "b"} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		named.Topics = append(named.Topics, topic)
	}
	ask[*kmsg.MetadataResponse](t, w, 9, named)
	all := kmsg.NewPtrMetadataRequest() // what it does not show is not refused
	ask[*kmsg.MetadataResponse](t, w, 9, all)

	events := end()
	want := map[string]string{
		"refused CREATE Topic:LITERAL:forbidden": "none",
		"refused DESCRIBE Topic:LITERAL:b":       denied.String(),
		"change CREATE Topic:a":                  "",
	}
	for event, rule := range want {
		e := events[strings.Replace(event, "Topic:LITERAL", "TOPIC:LITERAL", 1)]
		if got, _ := e["rule"].(string); e == nil || got != rule || e["who"] != "User:ANONYMOUS" || e["listener"] != "test" ||
			e["from"] == "" ||
			e["n"] != 1.0 {
			t.Errorf("%s: %v", event, e)
		}
	}
	if e := events["change CREATE Topic:a"]; e["api"] != "CreateTopics" || e["v"] != 7.0 {
		t.Errorf("the request of the change: %v", e)
	}
	if len(events) != len(want) {
		t.Errorf("events %v", events)
	}
}

// Every request that is refused for a missing right has a line, whatever API it is of.
func TestEveryRefusalIsRecorded(t *testing.T) {
	out := &auditLines{}
	log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(out)})
	var desk *sharetest.Desk
	g := newGuarded(t, quick, shares(&desk), func(o *nodeOptions) {
		o.static["auto.create.topics.enable"] = "false"
		before := o.broker
		o.broker = func(opt *Options) {
			before(opt)
			opt.Audit = log
		}
	})
	world := g.authWorld(t)
	cases := authCases()
	from := func(i int) string { return fmt.Sprintf("127.0.1.%d", i+1) } // an address has lines of its own
	for i := range cases {
		c := &cases[i]
		if c.needs[0].code == nil {
			continue // the answer has less, and no error
		}
		g.rules.Store(denying(c.base, nil))
		g.exchangeFrom(t, from(i), c.request(world, max(g.entries[c.key].Min, c.from)))
	}
	must(t, log.Close(t.Context()))
	for i := range cases {
		c, name := &cases[i], g.entries[cases[i].key].Name()
		recorded := slices.ContainsFunc(out.text, func(line string) bool {
			return strings.Contains(line, `"ev":"refused"`) && strings.Contains(line, `"api":"`+name+`"`) &&
				strings.Contains(line, `"from":"`+from(i)+`:`)
		})
		if !recorded && c.needs[0].code != nil {
			t.Errorf("%s %s is not recorded", name, c.name)
		}
	}
}

// Names of groups and client ids have up to 32 KiB. The audit log counts events for ten seconds,
// and must not keep such texts for each of them.
func TestRefusalsKeepNoLongTexts(t *testing.T) {
	log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(&auditLines{})})
	defer log.Close(t.Context())
	rules := denying(nil, nil)
	b := &Handler{opt: Options{Rules: func() *acl.Rules { return rules }, Audit: log}}
	session := &network.Session{Principal: "User:mallory", Host: "10.0.0.1"}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const names = 500
	before := heap()
	for i := range names {
		for range 2 { // the first one has a line at once
			id := fmt.Sprint(i) + strings.Repeat("x", 32<<10)
			r := &network.Request{Session: session, Key: int16(kmsg.DescribeGroups), ClientID: "c" + id}
			if b.rights(r).group(acl.Describe, id) == nil {
				t.Fatal("allowed")
			}
		}
	}
	if grown := heap() - before; grown > names*8<<10 {
		t.Errorf("%d events keep %d KiB each", names, grown/names>>10)
	}
	runtime.KeepAlive(log)
}

// Rights that a client does not have are counted with the client, and with the rule that denies
// them and the command that removes it.
func TestRightsThatAreMissingAreCounted(t *testing.T) {
	denied := acl.Binding{Type: acl.Topic, Name: "or", Pattern: acl.Prefixed, Principal: acl.Everybody, Host: acl.Wildcard,
		Operation: acl.Write, Permission: acl.Deny}
	allowed := acl.Binding{Type: acl.Topic, Name: "orders", Pattern: acl.Literal, Principal: "User:bob", Host: acl.Wildcard,
		Operation: acl.Read, Permission: acl.Allow}
	rules := acl.Compile([]acl.Binding{denied, allowed}, acl.Options{})
	counted := refusals.New(time.Now)
	b := &Handler{opt: Options{Rules: func() *acl.Rules { return rules }, Refusals: counted}}
	r := &network.Request{Session: &network.Session{Principal: "User:bob", Host: "10.0.0.1"}, Key: int16(kmsg.Produce), ClientID: "app"}
	for range 2 {
		b.rights(r).topic(acl.Write, "orders")
	}
	b.rights(r).topic(acl.Read, "orders")
	b.rights(r).topic(acl.Read, "other")
	all := counted.Last()
	who := view.Client{User: "User:bob", ClientID: "app", Address: "10.0.0.1"}
	if len(all) != 2 || all[0].Who != who || all[0].Count != 2 || all[0].Passed != 1 || all[0].Detail != denied.String() ||
		all[0].Lift != "`chronikctl acl remove 'User:*' write topic:or --deny --prefix`" || all[0].Cause != "WRITE on TOPIC" {
		t.Errorf("%+v", all)
	}
	if len(all) == 2 && (all[1].Detail != "" || all[1].Cause != "READ on TOPIC") {
		t.Errorf("without a rule: %+v", all[1])
	}
}

// A change that the leader of the metadata makes for a client has a line with the client.
func TestAuditOfChangesElsewhere(t *testing.T) {
	n, end := auditedNode(t, audit.Refusals, binding(acl.Alter, acl.Cluster, acl.ClusterName, acl.Allow),
		binding(acl.Describe, acl.Topic, acl.Wildcard, acl.Allow))
	id := n.topic(t, "t", 1)
	n.record(t, metadata.TopicPartition{Topic: id}, func(p *metadata.Partition) {
		p.Leader, p.ISR, p.Last = -1, nil, metadata.LastReplica{Broker: 1, Dir: [16]byte{1}}
	})
	w := n.dial(t)
	ask[*kmsg.UnregisterBrokerResponse](t, w, 0, &kmsg.UnregisterBrokerRequest{BrokerID: 7})
	if got := elected(t, w, 2, uncleanElection, nil); len(got) != 2 || got[1] != "0 ok" {
		t.Errorf("elected %q", got)
	}
	events := end()
	for event, api := range map[string]string{"change DELETE Broker:7": "UnregisterBroker",
		"change ELECT_UNCLEAN Partition:" + metadata.FormatID(id) + "-0": "ElectLeaders"} {
		if e := events[event]; e["api"] != api || e["who"] != "User:ANONYMOUS" {
			t.Errorf("%s: %v in %v", event, e, events)
		}
	}
}

// A change whose outcome the leader of the metadata did not report has a line that says so. One
// that it refused, or that it did not receive, has none.
func TestAuditOfChangesWithoutAnAnswer(t *testing.T) {
	for _, x := range []struct {
		err  error
		line bool
	}{
		{fmt.Errorf("%w: the connection ended", metadata.ErrUnknown), true},
		{&controller.Error{Kind: controller.InvalidRequest, Msg: "it is alive"}, false},
		{fmt.Errorf("%w: none leads", controller.ErrNotController), false},
	} {
		n, end := auditedNode(t, audit.Refusals, binding(acl.Alter, acl.Cluster, acl.ClusterName, acl.Allow),
			binding(acl.Describe, acl.Topic, acl.Wildcard, acl.Allow))
		id := n.topic(t, "t", 1)
		n.record(t, metadata.TopicPartition{Topic: id}, func(p *metadata.Partition) {
			p.Leader, p.ISR, p.Last = -1, nil, metadata.LastReplica{Broker: 1, Dir: [16]byte{1}}
		})
		n.opt.Cluster.(*fakeCluster).set(func(c *fakeCluster) { c.err = x.err })
		w := n.dial(t)
		ask[*kmsg.UnregisterBrokerResponse](t, w, 0, &kmsg.UnregisterBrokerRequest{BrokerID: 7})
		elected(t, w, 2, uncleanElection, nil)
		askSnapshot(t, w, `{"action":"delete","number":7}`)
		events := end()
		for _, event := range []string{"change DELETE Broker:7", "change DELETE Snapshot:7",
			"change ELECT_UNCLEAN Partition:" + metadata.FormatID(id) + "-0"} {
			why, _ := events[event]["why"].(string)
			if strings.HasPrefix(why, "it is not known whether the change was made: ") != x.line || (events[event] != nil) != x.line {
				t.Errorf("%v: %s: %v", x.err, event, events[event])
			}
		}
	}
}

// With all, what is permitted is also recorded.
func TestAuditOfPermits(t *testing.T) {
	rule := binding(acl.Describe, acl.Cluster, acl.ClusterName, acl.Allow)
	n, end := auditedNode(t, audit.All, rule)
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 1, 1, 1, 1
	ask[*kmsg.DescribeACLsResponse](t, n.dial(t), 2, req)
	if e := end()["allowed DESCRIBE CLUSTER:LITERAL:kafka-cluster"]; e == nil || e["rule"] != rule.String() {
		t.Errorf("line %v", e)
	}
}
