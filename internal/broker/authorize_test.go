package broker

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// guarded is a node with rules that a test may change. At first there is no authorization.
type guarded struct {
	*node
	rules atomic.Pointer[acl.Rules]
}

func newGuarded(t testing.TB, change ...func(*nodeOptions)) *guarded {
	t.Helper()
	g := &guarded{}
	g.node = newNode(t, append(change, func(o *nodeOptions) {
		before := o.broker
		o.broker = func(b *Options) {
			before(b)
			b.Cluster, b.Rules = &fakeCluster{}, g.rules.Load
		}
		o.visible = Visible(g.rules.Load)
	})...)
	return g
}

// right is one operation on one resource.
type right struct {
	op   acl.Operation
	kind acl.ResourceType
	name string
}

func (r right) String() string { return fmt.Sprintf("%v %v %s", r.op, r.kind, r.name) }

func (r right) binding(p acl.Permission) acl.Binding {
	return acl.Binding{Type: r.kind, Name: r.name, Pattern: acl.Literal, Principal: network.Anonymous, Host: acl.Wildcard,
		Operation: r.op, Permission: p}
}

// allow sets rules that allow some rights, and nothing else.
func (g *guarded) allow(rights ...right) { g.rules.Store(denying(rights, nil)) }

// rulesChanged tells the node that the rules have changed: in production they change with the
// metadata.
func (g *guarded) rulesChanged(t testing.TB) {
	t.Helper()
	a := acl.Binding{Type: acl.Topic, Name: fmt.Sprint(g.image().NumACLs()), Pattern: acl.Literal, Principal: "User:x",
		Host: acl.Wildcard, Operation: acl.Read, Permission: acl.Allow}
	g.write(t, metadata.KV{Key: metadata.ACLKey(&a), Value: metadata.EncodeACL(&a)})
}

// need is one right that a request needs, or one of several, and the error if they are missing: 0
// if something is left out instead.
type need struct {
	code *kerr.Error
	any  []right
}

func needs(code *kerr.Error, any ...right) need { return need{code, any} }

func topicRight(op acl.Operation, name string) right { return right{op, acl.Topic, name} }
func groupRight(op acl.Operation, id string) right   { return right{op, acl.Group, id} }
func txnRight(op acl.Operation, id string) right     { return right{op, acl.TransactionalID, id} }
func clusterRight(op acl.Operation) right            { return right{op, acl.Cluster, acl.ClusterName} }

func anyTopic(op acl.Operation) need {
	return needs(kerr.TopicAuthorizationFailed, topicRight(op, "t"))
}
func anyGroup(op acl.Operation, id string) need {
	return needs(kerr.GroupAuthorizationFailed, groupRight(op, id))
}
func anyTxn(op acl.Operation, id string) need {
	return needs(kerr.TransactionalIDAuthorizationFailed, txnRight(op, id))
}
func inCommand(ops ...acl.Operation) need {
	n := need{code: kerr.ClusterAuthorizationFailed}
	for _, op := range ops {
		n.any = append(n.any, clusterRight(op))
	}
	return n
}

// leftOut is a right without which an answer has less, and no error.
func leftOut(any ...right) need { return need{any: any} }

// authCase is a kind of request with the rights that it needs, in the order of the questions.
type authCase struct {
	name  string
	key   int16
	fill  func(*authWorld, kmsg.Request) // nil: fillRequest
	from  int16                          // the first version
	to    int16                          // the last version; 0: the last one there is
	base  []right                        // what the client has in addition, whatever else
	needs []need
}

// authWorld has the resources that exist during the test.
type authWorld struct {
	id, hidden [16]byte // of "t", and of a topic that no request names by its name
	batch      []byte   // of a transaction
}

const (
	hiddenTopic = "canary-topic"
	hiddenGroup = "canary-group"
	hiddenTxn   = "canary-txn"
)

// isAuthCode reports whether an error is one of those with which a request is refused for a missing
// right.
func isAuthCode(code int16) bool {
	switch code {
	case kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code,
		kerr.TransactionalIDAuthorizationFailed.Code, kerr.UnknownTopicID.Code, kerr.OperationNotAttempted.Code:
		return true
	}
	return false
}

// denials returns where an answer says that a right is missing, such as "29 Topics.Partitions".
func denials(resp kmsg.Response) []string {
	found := map[string]bool{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if strings.HasSuffix(f.Name, "ErrorCode") && f.Type.Kind() == reflect.Int16 {
					if code := int16(v.Field(i).Int()); isAuthCode(code) {
						at := strings.Trim(path+"."+strings.TrimSuffix(f.Name, "ErrorCode"), ".")
						found[fmt.Sprintf("%d %s", code, cmp.Or(at, "top"))] = true
					}
				} else if f.IsExported() {
					walk(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."))
				}
			}
		}
	}
	walk(reflect.ValueOf(resp), "")
	var list []string
	for s := range found {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// exchange sends a request on a new connection, and returns the answer and its bytes.
func (g *guarded) exchange(t *testing.T, req kmsg.Request) (kmsg.Response, []byte) {
	t.Helper()
	return exchangeOn(t, g.dial(t), req)
}

// exchangeFrom is exchange from a local address.
func (g *guarded) exchangeFrom(t *testing.T, host string, req kmsg.Request) (kmsg.Response, []byte) {
	t.Helper()
	return exchangeOn(t, g.dialFrom(t, host), req)
}

func exchangeOn(t *testing.T, w *wire, req kmsg.Request) (kmsg.Response, []byte) {
	t.Helper()
	defer w.Close()
	must(t, w.send(req))
	body, err := w.body()
	must(t, err)
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	rest := body
	if resp.IsFlexible() && req.Key() != protocol.KeyApiVersions {
		rest = body[1:]
	}
	must(t, resp.ReadFrom(rest))
	return resp, body
}

// made returns the names of all topics and groups.
func (g *guarded) made(t *testing.T) string {
	t.Helper()
	before := g.rules.Swap(nil)
	defer g.rules.Store(before)
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	resp, _ := g.exchange(t, list)
	var ids []string
	for _, x := range resp.(*kmsg.ListGroupsResponse).Groups {
		ids = append(ids, x.Group)
	}
	slices.Sort(ids)
	var names []string
	for topic := range g.image().Topics() {
		names = append(names, topic.Name)
	}
	return fmt.Sprint(names, ids)
}

// openAPIs are those that every client may use.
func openAPIs() []int16 {
	return []int16{int16(kmsg.ApiVersions), int16(kmsg.DescribeCluster), int16(kmsg.GetTelemetrySubscriptions), int16(kmsg.PushTelemetry),
		protocol.KeySASLHandshake, protocol.KeySASLAuthenticate}
}

// Each version of each request is answered without rights, with all that it needs, with all but
// one, and with all and one denied: with the code of its case, at the level that the golden file
// has. No answer names what its client may not see, and nothing is made.
func TestEveryRequestNeedsItsRights(t *testing.T) {
	var desk *sharetest.Desk
	g := newGuarded(t, quick, shares(&desk), func(o *nodeOptions) { o.static["auto.create.topics.enable"] = "false" })
	world := g.authWorld(t)
	cases := authCases()
	var levels strings.Builder
	for _, a := range g.entries {
		if a == nil || slices.Contains(openAPIs(), a.Key) {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			if !slices.ContainsFunc(cases, func(c authCase) bool { return c.key == a.Key && v >= c.from && (c.to == 0 || v <= c.to) }) {
				t.Errorf("%s version %d has no case", a.Name(), v)
			}
		}
	}
	for i := range cases {
		c := &cases[i]
		a := g.entries[c.key]
		for _, n := range c.needs {
			var at []string
			last, from := "", int16(0)
			note := func(v int16, now string) {
				if now == last {
					return
				}
				if last != "" {
					at = append(at, fmt.Sprintf("v%d-%d %s", from, v-1, last))
				}
				last, from = now, v
			}
			end := a.Max
			if c.to > 0 {
				end = c.to
			}
			for v := max(a.Min, c.from); v <= end; v++ {
				t.Run(fmt.Sprintf("%s/%d/%v", cmp.Or(c.name, a.Name()), v, n.any[0]), func(t *testing.T) {
					note(v, g.checkNeed(t, world, c, v, &n))
				})
			}
			note(end+1, "")
			fmt.Fprintf(&levels, "%s | %v | %s\n", cmp.Or(c.name, a.Name()), n.any, strings.Join(at, "; "))
		}
	}
	golden.File(t, "testdata/authorization.txt", levels.String(), "go test ./internal/broker -run NeedsItsRights")
}

// request returns a request of a case.
func (c *authCase) request(w *authWorld, version int16) kmsg.Request {
	req := kmsg.RequestForKey(c.key)
	req.SetVersion(version)
	if c.fill != nil {
		c.fill(w, req)
	} else {
		fillRequest(req, w.id)
	}
	return req
}

// checkNeed checks one right of a request. It returns where the answer says that it is missing.
func (g *guarded) checkNeed(t *testing.T, w *authWorld, c *authCase, version int16, n *need) string {
	var all, others []right
	for i := range c.needs {
		all = append(all, c.needs[i].any[0])
		if &c.needs[i] != n && c.needs[i].any[0] != n.any[0] {
			others = append(others, c.needs[i].any[0])
		}
	}
	before := g.made(t)
	missing := ""
	for _, s := range []struct {
		name  string
		rules *acl.Rules
		want  *kerr.Error
	}{
		{"without rights", denying(c.base, nil), c.needs[0].code},
		{"all but one", denying(append(others, c.base...), nil), n.code},
		{"one denied", denying(append(all, c.base...), n.any), n.code},
		{"everything, one denied", denying(everything(), n.any), n.code},
	} {
		g.rules.Store(s.rules)
		req := c.request(w, version)
		resp, body := g.exchange(t, req)
		found := denials(resp)
		g.checkHidden(t, s.name, w, req, body)
		switch {
		case s.want == nil && s.name != "without rights" && len(found) > 0:
			t.Errorf("%s: %v: %+v", s.name, found, resp)
		case s.want != nil && !names(found, s.want) && !hasNoPlace(resp):
			t.Errorf("%s: %v; want %v: %+v", s.name, found, s.want, resp)
		}
		if s.name == "all but one" {
			missing = strings.Join(found, ", ")
		}
	}
	if now := g.made(t); now != before && n.code != nil {
		t.Errorf("a refused request has made %s out of %s", now, before)
	}
	for _, alternative := range n.any {
		g.rules.Store(denying(append(append(others, alternative), c.base...), nil))
		if resp, _ := g.exchange(t, c.request(w, version)); len(denials(resp)) > 0 {
			t.Errorf("with %v and %v: %+v", alternative, others, resp)
		}
	}
	return missing
}

// names reports whether one of the denials is an error. A client that may describe a topic gets
// another error for its id than one that may not.
func names(found []string, code *kerr.Error) bool {
	return slices.ContainsFunc(found, func(s string) bool {
		return strings.HasPrefix(s, fmt.Sprint(code.Code)) ||
			code == kerr.UnknownTopicID && strings.HasPrefix(s, fmt.Sprint(kerr.TopicAuthorizationFailed.Code))
	})
}

// everything are the rights to do everything.
func everything() (list []right) {
	for _, k := range []acl.ResourceType{acl.Topic, acl.Group, acl.Cluster, acl.TransactionalID} {
		list = append(list, right{acl.All, k, acl.Wildcard})
	}
	return list
}

// denying returns rules that allow some rights and deny others.
func denying(allowed, denied []right) *acl.Rules {
	var list []acl.Binding
	for _, r := range allowed {
		list = append(list, r.binding(acl.Allow))
	}
	for _, r := range denied {
		list = append(list, r.binding(acl.Deny))
	}
	return acl.Compile(list, acl.Options{Internal: metadata.InternalTopics()})
}

// hasNoPlace reports whether an answer of this version has no field for an error: then it is empty.
func hasNoPlace(resp kmsg.Response) bool {
	dirs, ok := resp.(*kmsg.DescribeLogDirsResponse)
	return ok && dirs.Version < 3 && len(dirs.Dirs) == 0
}

// checkHidden checks that an answer has neither the name nor the id of anything that the request
// does not name, under rules that do not allow to see it.
func (g *guarded) checkHidden(t *testing.T, what string, w *authWorld, req kmsg.Request, body []byte) {
	t.Helper()
	if what == "everything, one denied" { // it sees everything else
		return
	}
	asked := req.AppendTo(nil)
	for _, canary := range [][]byte{[]byte(hiddenTopic), []byte(hiddenGroup), []byte(hiddenTxn), w.hidden[:], w.id[:]} {
		if bytes.Contains(body, canary) && !bytes.Contains(asked, canary) && !(bytes.Equal(canary, w.id[:]) && what != "without rights") {
			t.Errorf("%s: %q is in the answer", what, canary)
		}
	}
}
