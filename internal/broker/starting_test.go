package broker

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/view"
)

// startingNode is a node whose clients still have to wait for its start. It has metadata.
func startingNode(t *testing.T) (*node, *Starting) {
	t.Helper()
	return startingNodeWith(t, func(n *node) *metadata.Image { return n.image() })
}

func startingNodeWith(t *testing.T, known func(*node) *metadata.Image) (*node, *Starting) {
	t.Helper()
	var s *Starting
	var self atomic.Pointer[node]
	n := newNode(t, func(o *nodeOptions) {
		o.pipe = true
		o.network = func(opt *network.Options) {
			phase := func() string { return "waiting for seeds" }
			s = NewStarting(opt.Table, 1, func() *metadata.Image { return known(self.Load()) }, phase)
			opt.Handler = s
		}
	})
	self.Store(n)
	return n, s
}

// answered sends a request and returns whether its answer arrives, at the latest when the
// connection ends.
func answered(w *wire, version int16, req kmsg.Request) chan error {
	result := make(chan error, 1)
	req.SetVersion(version)
	go func() {
		err := w.send(req)
		if err == nil {
			_, err = w.receive(req)
		}
		result <- err
	}()
	return result
}

// A client that asks what a start waits for does not wait, also if there are no metadata.
func TestAStartingBrokerSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := startingNodeWith(t, func(*node) *metadata.Image { return nil })
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "ctl", "1"
		req.UnknownTags.Set(view.PhaseTag, nil)
		begun := time.Now()
		resp := ask[*kmsg.ApiVersionsResponse](t, n.dial(t), 3, req)
		got := ""
		resp.UnknownTags.Each(func(tag uint32, p []byte) {
			if tag == view.PhaseTag {
				got = string(p)
			}
		})
		if got != "waiting for seeds" || time.Since(begun) > 0 || len(resp.ApiKeys) == 0 {
			t.Errorf("%q after %v", got, time.Since(begun))
		}
	})
}

func TestAStartingBrokerRefusesProducersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := startingNode(t)
		ask[*kmsg.ApiVersionsResponse](t, n.dial(t), 3, kmsg.NewPtrApiVersionsRequest())
		req := kmsg.NewPtrProduceRequest()
		req.Acks = -1
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "a"
		topic.Partitions = append(topic.Partitions, kmsg.NewProduceRequestTopicPartition())
		req.Topics = append(req.Topics, topic)
		resp := ask[*kmsg.ProduceResponse](t, n.dial(t), 9, req)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != kerr.NotLeaderForPartition.Code {
			t.Errorf("error code %d, want NOT_LEADER_OR_FOLLOWER", got)
		}
		fetch := kmsg.NewPtrFetchRequest()
		if err := <-answered(n.dial(t), 12, fetch); !errors.Is(err, io.EOF) {
			t.Errorf("a fetch: %v, want the end of the connection", err)
		}
	})
}

// A client that receives no features begins its transactions with the protocol before KIP-890.
func TestAStartingBrokerClaimsTheFeaturesThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := startingNode(t)
		resp := ask[*kmsg.ApiVersionsResponse](t, n.dial(t), 4, apiVersionsRequest("a", "1"))
		if got, want := features(resp), "transaction.version 2-2"; !strings.Contains(got, want) {
			t.Errorf("features %s, want also %s", got, want)
		}
		if resp.FinalizedFeaturesEpoch != n.image().Version() {
			t.Errorf("epoch %d, want %d", resp.FinalizedFeaturesEpoch, n.image().Version())
		}
	})
}

func TestANodeWithoutMetadataWaitsForItsFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var has atomic.Bool
		n, s := startingNodeWith(t, func(n *node) *metadata.Image {
			if has.Load() {
				return n.image()
			}
			return nil
		})
		begin := time.Now()
		resp := ask[*kmsg.ApiVersionsResponse](t, n.dial(t), 2, apiVersionsRequest("a", "1"))
		if took := time.Since(begin); len(resp.ApiKeys) == 0 || took > 0 {
			t.Errorf("a version without features: %d keys after %s, want the table at once", len(resp.ApiKeys), took)
		}
		late := apiVersionsRequest("a", "1")
		resp = ask[*kmsg.ApiVersionsResponse](t, n.dial(t), 4, late)
		if took := time.Since(begin); took != startPatience {
			t.Errorf("without metadata answered after %s, want %s", took, startPatience)
		}
		if len(resp.FinalizedFeatures) > 0 || resp.FinalizedFeaturesEpoch != -1 || len(resp.ApiKeys) == 0 {
			t.Errorf("without metadata: features %s, epoch %d, %d keys; want none, -1 and the table",
				features(resp), resp.FinalizedFeaturesEpoch, len(resp.ApiKeys))
		}

		w := n.dial(t)
		late.SetVersion(4)
		must(t, w.send(late))
		synctest.Wait()
		has.Store(true)
		s.Show(n.Handler)
		got, err := w.receive(late)
		must(t, err)
		resp = got.(*kmsg.ApiVersionsResponse)
		if resp.FinalizedFeaturesEpoch != n.image().Version() || !strings.Contains(features(resp), "transaction.version 2-2") {
			t.Errorf("after the wait: features %s, epoch %d", features(resp), resp.FinalizedFeaturesEpoch)
		}
	})
}

// Clients take a connection that ends before its first answer for one to a port with TLS or SASL.
func TestRequestsWaitForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := startingNode(t)
		id := n.topic(t, "a", 1)
		known, unknown := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest()
		for req, name := range map[*kmsg.MetadataRequest]string{known: "a", unknown: "b"} {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
		}
		describes, creates := answered(n.dial(t), 12, known), answered(n.dial(t), 12, unknown)
		groups := answered(n.dial(t), 4, kmsg.NewPtrListGroupsRequest())
		time.Sleep(startPatience / 2)
		synctest.Wait()
		if len(describes)+len(creates)+len(groups) > 0 {
			t.Fatal("a request was answered before the start")
		}

		s.Show(n.Handler)
		must(t, <-describes)
		synctest.Wait()
		if len(creates)+len(groups) > 0 {
			t.Error("a broker that only describes the cluster answered more")
		}
		byID := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id
		byID.Topics = append(byID.Topics, topic)
		must(t, <-answered(n.dial(t), 12, byID))
		must(t, <-answered(n.dial(t), 1, kmsg.NewPtrDescribeClusterRequest()))

		s.Serve(n.Handler)
		must(t, <-creates)
		must(t, <-groups)
	})
}

func TestWaitingForTheStartHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := startingNode(t)
		begin := time.Now()
		if err := <-answered(n.dial(t), 4, kmsg.NewPtrListGroupsRequest()); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want the end of the connection", err)
		}
		if took := time.Since(begin); took != startPatience {
			t.Errorf("after %s, want %s", took, startPatience)
		}
	})
}

func TestAServerThatEndsDoesNotWaitForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := startingNode(t)
		pending := answered(n.dial(t), 4, kmsg.NewPtrListGroupsRequest())
		synctest.Wait()
		begin := time.Now()
		must(t, n.server.Load().Close())
		if err := <-pending; err == nil {
			t.Error("the request was answered")
		}
		if took := time.Since(begin); took >= startPatience {
			t.Errorf("the server ended after %s", took)
		}
	})
}
