package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
)

// setFeature asks for a level of a feature, and returns the error with its text.
func setFeature(t *testing.T, w *wire, name string, level int16, change func(*kmsg.UpdateFeaturesRequest)) (*kerr.Error, string) {
	t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, 1
	if level == 0 {
		f.UpgradeType = 2
	}
	req.TimeoutMillis, req.FeatureUpdates = 60_000, append(req.FeatureUpdates, f)
	if change != nil {
		change(req)
	}
	resp := ask[*kmsg.UpdateFeaturesResponse](t, w, 2, req)
	text := ""
	if resp.ErrorMessage != nil {
		text = *resp.ErrorMessage
	}
	return kerr.TypedErrorForCode(resp.ErrorCode), text
}

// At level 0 of share.version, each request of a client about share groups gets
// UNSUPPORTED_VERSION, and with level 1 it is served again. The levels can be set with others.
func TestShareGroupsHaveAFeature(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	refused := func() (n, all int) {
		for _, a := range apis() {
			name := a.Name()
			if !strings.Contains(name, "Share") || strings.Contains(name, "State") {
				continue
			}
			all++
			req := kmsg.RequestForKey(a.Key)
			switch req := req.(type) {
			case *kmsg.ShareGroupDescribeRequest:
				req.GroupIDs = []string{"g"}
			case *kmsg.ShareFetchRequest:
				*req = *(&sharer{group: "g", id: "m", topic: id, max: 500}).request()
			case *kmsg.ShareGroupHeartbeatRequest:
				*req = *shareBeat("m", 0, "t")
			case *kmsg.DescribeShareGroupOffsetsRequest:
				*req = *describeShareOffsets("g", "t", 0)
			}
			req.SetVersion(a.Max)
			must(t, w.send(req))
			resp, err := w.receive(req)
			must(t, err)
			for _, code := range codesIn(resp) {
				if code == kerr.UnsupportedVersion.Code {
					n++
					break
				}
			}
		}
		return n, all
	}
	if got, all := refused(); got != 0 || all < 4 {
		t.Errorf("%d of %d are refused", got, all)
	}
	dry := func(req *kmsg.UpdateFeaturesRequest) { req.ValidateOnly = true }
	if err, text := setFeature(t, w, shareVersion, 0, dry); err != nil || n.image().ShareVersion() != 1 {
		t.Errorf("a validation: %v, %s; level %d", err, text, n.image().ShareVersion())
	}
	if err, text := setFeature(t, w, shareVersion, 0, nil); err != nil || n.image().ShareVersion() != 0 {
		t.Fatal(err, text)
	}
	if got, all := refused(); got != all {
		t.Errorf("at level 0, %d of %d are refused", got, all)
	}
	listed := ask[*kmsg.ApiVersionsResponse](t, w, 4, apiVersionsRequest("x", "1"))
	if text := features(listed); strings.Contains(text, "share.version 1-1") || !strings.Contains(text, "(share.version from 0)") {
		t.Errorf("features at level 0: %s", text)
	}
	both := func(req *kmsg.UpdateFeaturesRequest) {
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType = transactionVersion, 1, 2
		req.FeatureUpdates = append(req.FeatureUpdates, f)
	}
	err, text := setFeature(t, w, shareVersion, 1, both)
	if img := n.image(); err != nil || img.ShareVersion() != 1 || img.TransactionVersion() != 1 {
		t.Fatal(err, text)
	}
	if got, _ := refused(); got != 0 {
		t.Errorf("at level 1 again, %d are refused", got)
	}
	if err, text := setFeature(t, w, shareVersion, 2, nil); err != kerr.InvalidUpdateVersion {
		t.Errorf("level 2: %v, %s", err, text)
	}
}

// A cluster that was made by a former version gets share groups when no broker of such a version is
// registered any more. Its metadata then has a feature level that such a version refuses.
func TestShareGroupsNeedBrokersThatKnowThem(t *testing.T) {
	n := newNode(t, quick)
	w := n.dial(t)
	c := metadata.Cluster{ID: n.image().ClusterID(), Generation: n.image().Generation(), FeatureLevel: 1, TransactionVersion: 2}
	n.write(t, metadata.KV{Key: metadata.ClusterKey, Value: c.Encode()})
	if strings.Contains(string(c.Encode()), "share") {
		t.Errorf("a former version refuses %s", c.Encode())
	}
	former := metadata.Broker{Incarnation: metadata.ID{9}, Features: metadata.Features{Min: 1, Max: 1}}
	n.write(t, metadata.KV{Key: metadata.BrokerKey(7), Value: former.Encode()})
	for _, dry := range []bool{true, false} {
		err, text := setFeature(t, w, shareVersion, 1, func(req *kmsg.UpdateFeaturesRequest) { req.ValidateOnly = dry })
		if err != kerr.InvalidUpdateVersion || !strings.Contains(text, "broker 7") || n.image().ShareVersion() != 0 {
			t.Errorf("with a broker of a former version: %v, %s", err, text)
		}
	}
	for _, level := range []int32{metadata.ShareLevel, metadata.MaxFeatureLevel} { // each upgrade is completed in this way
		former.Features.Max = level
		n.write(t, metadata.KV{Key: metadata.BrokerKey(7), Value: former.Encode()})
		if err, text := setFeature(t, w, shareVersion, 1, nil); err != nil {
			t.Fatal(err, text)
		}
		if img := n.image(); img.ShareVersion() != 1 || img.FeatureLevel() != level || img.TransactionVersion() != 2 {
			t.Errorf("share.version %d, feature level %d, transaction.version %d", img.ShareVersion(), img.FeatureLevel(),
				img.TransactionVersion())
		}
	}
}
