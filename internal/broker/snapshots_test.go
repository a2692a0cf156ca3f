package broker

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// tagged returns what an answer has in the tagged field, and whether it has it.
func tagged(tags *kmsg.Tags) (body []byte, ok bool) {
	tags.Each(func(tag uint32, p []byte) {
		if tag == view.SnapshotTag {
			body, ok = p, true
		}
	})
	return body, ok
}

// listSnapshots asks as chronikctl does.
func listSnapshots(t testing.TB, w *wire) (x view.SnapshotList, shown bool, code int16) {
	t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.UnknownTags.Set(view.SnapshotTag, []byte{})
	resp := ask[*kmsg.DescribeQuorumResponse](t, w, 2, req)
	body, ok := tagged(&resp.UnknownTags)
	if ok {
		must(t, json.Unmarshal(body, &x))
	}
	return x, ok, resp.ErrorCode
}

func askSnapshot(t testing.TB, w *wire, body string) (a view.SnapshotAnswer, shown bool, code int16) {
	t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.UnknownTags.Set(view.SnapshotTag, []byte(body))
	resp := ask[*kmsg.UpdateFeaturesResponse](t, w, 2, req)
	p, ok := tagged(&resp.UnknownTags)
	if ok {
		must(t, json.Unmarshal(p, &a))
	}
	return a, ok, resp.ErrorCode
}

// An operator sees the newest snapshots, also if the metadata leader does not answer.
func TestSnapshotsAreListed(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	w := n.dial(t)
	if x, ok, code := listSnapshots(t, w); !ok || code != 0 || len(x.Snapshots) != 0 || x.Service == nil || x.Service.Term != 7 {
		t.Errorf("%+v, %t, %d", x, ok, code)
	}
	var kvs []metadata.KV
	for i := range int64(shownSnapshots + 1) {
		s := metadata.Snapshot{Time: 5, Ended: 6, Partitions: 4, Offline: 1, Bytes: 9, Uploaded: 8, Verified: 7, Note: "n", Damage: "d"}
		kvs = append(kvs, metadata.KV{Key: metadata.SnapshotKey(i + 10), Value: s.Encode()})
	}
	n.write(t, kvs...)
	c.set(func(c *fakeCluster) { c.err = errors.New("it is down") })
	x, _, _ := listSnapshots(t, w)
	want := view.Snapshot{Number: 11, TimeMs: 5, EndedMs: 6, Partitions: 4, Offline: 1, Bytes: 9, UploadedBytes: 8,
		VerifiedMs: 7, Note: "n", Damage: "d"}
	if len(x.Snapshots) != shownSnapshots || x.Snapshots[0] != want || x.Service != nil ||
		x.Error != "the broker that leads the metadata does not answer: it is down" {
		t.Errorf("%d snapshots from %+v on, %+v, %s", len(x.Snapshots), x.Snapshots[0], x.Service, x.Error)
	}
}

// What an operator asks for is passed to the metadata leader if it is well formed.
func TestRequestsForSnapshots(t *testing.T) {
	c := &fakeCluster{}
	n := newNode(t, inCluster(c))
	w := n.dial(t)
	asked := func() (list []view.SnapshotAsk) {
		c.set(func(c *fakeCluster) { list = slices.Clone(c.asked) })
		return list
	}
	for body, want := range map[string]string{
		"":                             "the request is no JSON of this version: EOF",
		"{":                            "the request is no JSON of this version: unexpected EOF",
		"7":                            "the request is no JSON of this version: json: cannot unmarshal",
		`{"action":"create","melt":1}`: `the request is no JSON of this version: json: unknown field "melt"`,
		`{"action":"create"} {}`:       "the request is no JSON of this version: there is more after it",
		`{"action":"` + strings.Repeat("a", maxSnapshotAsk) + `"}`: "the request has 4109 bytes, more than 4096",
	} {
		if a, ok, code := askSnapshot(t, w, body); !ok || code != 0 || a.ID != 0 || !strings.HasPrefix(a.Error, want) || len(asked()) != 0 {
			t.Errorf("%.40q: %+v, %t, %d; asked %+v", body, a, ok, code, asked())
		}
	}
	a, _, _ := askSnapshot(t, w, `{"action":"delete","number":7,"allowOffline":true}`)
	want := []view.SnapshotAsk{{Action: view.DeleteSnapshot, Number: 7, AllowOffline: true}}
	if !slices.Equal(asked(), want) || a.ID != 1 || a.Term != 7 || a.Error != "" {
		t.Errorf("%+v; asked %+v", a, asked())
	}
	c.set(func(c *fakeCluster) { c.refusal = "100 requests wait" })
	if a, _, _ := askSnapshot(t, w, `{"action":"create"}`); a.Error != "100 requests wait" {
		t.Errorf("%+v", a)
	}
	c.set(func(c *fakeCluster) { c.refusal, c.err = "", errors.New("it is down") })
	if a, _, _ := askSnapshot(t, w, `{"action":"create"}`); a.Error != "the broker that leads the metadata does not answer: it is down" {
		t.Errorf("%+v", a)
	}
}

// Snapshots need the rights of the requests that have the field: to see them that to describe the
// cluster, for all else that to alter it.
func TestRightsOfSnapshots(t *testing.T) {
	g := newGuarded(t, func(o *nodeOptions) { o.broker = func(*Options) {} })
	w := g.dial(t)
	for _, x := range []struct {
		rights     []right
		list, asks bool
	}{
		{nil, false, false},
		{[]right{topicRight(acl.Alter, acl.Wildcard), topicRight(acl.Describe, acl.Wildcard)}, false, false},
		{[]right{clusterRight(acl.Describe)}, true, false},
		{[]right{clusterRight(acl.Alter)}, true, true}, // it implies Describe
	} {
		g.allow(x.rights...)
		_, shown, code := listSnapshots(t, w)
		if shown != x.list || (code == kerr.ClusterAuthorizationFailed.Code) == x.list {
			t.Errorf("with %v: listed %t, code %d", x.rights, shown, code)
		}
		_, shown, code = askSnapshot(t, w, `{"action":"create"}`)
		if shown != x.asks || (code == kerr.ClusterAuthorizationFailed.Code) == x.asks {
			t.Errorf("with %v: asked %t, code %d", x.rights, shown, code)
		}
	}
}

// What an operator asks for is in the audit log, and what is refused is not a change.
func TestAuditOfSnapshots(t *testing.T) {
	n, end := auditedNode(t, audit.Refusals, binding(acl.Alter, acl.Cluster, acl.ClusterName, acl.Allow))
	w := n.dial(t)
	for _, body := range []string{`{"action":"create"}`, `{"action":"delete","number":7}`, `{"action":"verify","number":8}`, "{",
		`{"action":"delete","number":9,"melt":1}`} {
		askSnapshot(t, w, body)
	}
	events := end()
	for _, want := range []string{"change CREATE Snapshot:0", "change DELETE Snapshot:7", "change DESCRIBE Snapshot:8"} {
		if e := events[want]; e == nil || e["who"] != "User:ANONYMOUS" || e["api"] != "UpdateFeatures" {
			t.Errorf("%s: %v", want, e)
		}
	}
	if len(events) != 3 {
		t.Errorf("%v", events)
	}
}
