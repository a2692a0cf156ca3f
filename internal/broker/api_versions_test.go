package broker

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
)

func apiVersionsRequest(name, version string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
	return req
}

func TestApiVersionsListsTheTable(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for v := range int16(6) {
		resp := ask[*kmsg.ApiVersionsResponse](t, w, v, apiVersionsRequest("apache-kafka-java", "4.4.0"))
		got := map[int16]kmsg.ApiVersionsResponseApiKey{}
		for _, k := range resp.ApiKeys {
			got[k.ApiKey] = k
		}
		if resp.ErrorCode != 0 || len(got) != len(n.table.APIs()) {
			t.Fatalf("version %d: error %d, %d keys, want %d", v, resp.ErrorCode, len(got), len(n.table.APIs()))
		}
		for _, a := range n.table.APIs() {
			if k := got[a.Key]; k.MinVersion != a.ListedMin() || k.MaxVersion != a.Max {
				t.Errorf("version %d: %s is %d to %d, want %d to %d", v, a.Name(), k.MinVersion, k.MaxVersion, a.ListedMin(), a.Max)
			}
		}
		if got[protocol.KeyProduce].MinVersion != 0 {
			t.Error("Produce is not listed from 0: librdkafka would not compress")
		}
		if v < 3 {
			continue
		}
		listed, want := features(resp), "metadata.version 33-33 group.version 1-1 share.version 1-1 streams.version 1-1 transaction.version 2-2"
		if v >= 4 {
			want += " (group.version from 0) (share.version from 0) (streams.version from 0) (transaction.version from 0)"
		}
		if listed != want || resp.FinalizedFeaturesEpoch != n.image().Version() {
			t.Errorf("version %d: features %s, want %s; epoch %d", v, listed, want, resp.FinalizedFeaturesEpoch)
		}
	}
}

// From version 5 on, a client names the broker that it looks for (KIP-1242). Kafka 4.4 answers the
// same.
func TestAClientOfAnotherBrokerAsksItsBootstrapServersAgain(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	own, other := n.image().ClusterID(), "AAAAAAAAAAAAAAAAAAAAAA"
	for _, x := range []struct {
		cluster *string
		node    int32
		want    *kerr.Error
	}{
		{nil, -1, nil}, {&own, 1, nil},
		{&other, 1, kerr.RebootstrapRequired}, {&own, 2, kerr.RebootstrapRequired}, {new(""), 1, kerr.RebootstrapRequired},
		{&own, -2, kerr.RebootstrapRequired},
		{&own, -1, kerr.InvalidRequest}, {nil, 1, kerr.InvalidRequest},
	} {
		req := apiVersionsRequest("apache-kafka-java", "4.4.0")
		req.ClusterID, req.NodeID = x.cluster, x.node
		resp := ask[*kmsg.ApiVersionsResponse](t, w, 5, req)
		if got := kerr.TypedErrorForCode(resp.ErrorCode); got != x.want || (got == nil) != (len(resp.ApiKeys) > 0) {
			t.Errorf("cluster %v, broker %d: %v with %d APIs, want %v", x.cluster, x.node, got, len(resp.ApiKeys), x.want)
		}
	}
}

// features lists finalized features, and those supported from level 0 on, which clients of version
// 3 reject.
func features(resp *kmsg.ApiVersionsResponse) string {
	var list []string
	for _, f := range resp.FinalizedFeatures {
		list = append(list, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersionLevel, f.MaxVersionLevel))
	}
	for _, f := range resp.SupportedFeatures {
		if f.MinVersion == 0 {
			list = append(list, "("+f.Name+" from 0)")
		}
	}
	return strings.Join(list, " ")
}

func TestAnUnsupportedVersionOfApiVersionsIsAnsweredInVersion0(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	// Version 9, header of version 2, a body in no known format.
	_, err := w.Write([]byte{0, 0, 0, 15, 0, 18, 0, 9, 0, 0, 0, 0, 0xff, 0xff, 0, 1, 2, 3, 4})
	must(t, err)
	body, err := w.body()
	must(t, err)
	if got, want := hex.EncodeToString(body), "0023"+"00000001"+"0012"+"0000"+"0005"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if resp := ask[*kmsg.ApiVersionsResponse](t, w, 4, apiVersionsRequest("a", "1")); resp.ErrorCode != 0 {
		t.Errorf("the connection did not go on: error %d", resp.ErrorCode)
	}
}

func TestApiVersionsChecksTheClientsName(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct {
		name, version string
		ok            bool
	}{
		{"a", "1", true}, {"librdkafka", "2.3.0-RC1", true}, {"a-.b", "1", true},
		{"", "1", false}, {"a", "", false}, {"-a", "1", false}, {"a", "1.", false}, {"a b", "1", false}, {"ä", "1", false},
	} {
		for _, v := range []int16{3, 4} {
			resp := ask[*kmsg.ApiVersionsResponse](t, w, v, apiVersionsRequest(c.name, c.version))
			if c.ok && (resp.ErrorCode != 0 || len(resp.ApiKeys) == 0) ||
				!c.ok && (resp.ErrorCode != kerr.InvalidRequest.Code || len(resp.ApiKeys) > 0) {
				t.Errorf("%q %q version %d: error %d, %d keys", c.name, c.version, v, resp.ErrorCode, len(resp.ApiKeys))
			}
		}
		if resp := ask[*kmsg.ApiVersionsResponse](t, w, 2, apiVersionsRequest(c.name, c.version)); resp.ErrorCode != 0 {
			t.Errorf("version 2 has no name and answers %d", resp.ErrorCode)
		}
	}
}
