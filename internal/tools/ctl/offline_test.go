package ctl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
)

// The only broker of a partition is down. Each command says that none leads it and which ones say
// what it waits for, and none speaks of an election in progress, or of other partitions.
func TestAPartitionThatNoBrokerLeads(t *testing.T) {
	c := fakebroker.NewCluster(t, 1)
	c.Do(func() {
		c.Partitions["a"] = []fakebroker.Partition{{Replicas: []int32{3}, ISR: []int32{3}, Leaderless: true}}
	})
	for _, line := range []string{"consume a", "produce a --acks 1 --timeout 1s", "topic trim a --before 1 --yes"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel() // each asks again for seconds
			code, out, errs := toolAt{c.Addr(), t}.run("x\n", strings.Fields(line)...)
			if code != 1 || !strings.Contains(errs, "LEADER_NOT_AVAILABLE: no broker leads the partition now") ||
				!strings.Contains(errs, "; an election takes a second or two; chronikctl topic describe TOPIC and chronikctl cluster health say") ||
				strings.Contains(errs, "try again") || strings.Contains(errs, "others") {
				t.Errorf("code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// A change without a metadata quorum fails after a wait, and the broker says that there is no
// leader. What to do about it is in cluster health, which names the missing brokers.
func TestAChangeWithoutAMetadataQuorum(t *testing.T) {
	at := refusing(t, kerr.RequestTimedOut, "metadata store has no leader for 15s: this member does not lead the metadata")
	code, _, errs := toolAt{at, t}.run("", "topic", "create", "a")
	if code != 1 || !strings.Contains(errs, "chronikctl topic describe a shows it if it is; ") ||
		!strings.Contains(errs, "see which brokers are missing: chronikctl cluster health\n") {
		t.Errorf("create: code %d, %s", code, errs)
	}
}

// refusing returns the address of a broker that refuses each CreateTopics.
func refusing(t *testing.T, why *kerr.Error, message string) string {
	var port int32
	port = fakebroker.Serve(t, func(req kmsg.Request) kmsg.Response {
		name := "a"
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest:
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			for key, most := range map[kmsg.Key]int16{kmsg.ApiVersions: 3, kmsg.Metadata: 9, kmsg.CreateTopics: 5} {
				resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: most})
			}
			return resp
		case *kmsg.MetadataRequest:
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			resp.ControllerID = 1
			resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: fakebroker.Host, Port: port}}
			resp.Topics = []kmsg.MetadataResponseTopic{{Topic: &name, Partitions: []kmsg.MetadataResponseTopicPartition{{Leader: 1}}}}
			return resp
		case *kmsg.CreateTopicsRequest:
			resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			resp.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: name, ErrorCode: why.Code, ErrorMessage: &message}}
			return resp
		}
		return nil
	})
	return fmt.Sprintf("%s:%d", fakebroker.Host, port)
}
