package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// A client that asks, and may describe the cluster, learns when brokers were started, and how many
// partitions there are, also those that it cannot see. It needs no right on topics.
func TestStartsInAnAnswer(t *testing.T) {
	g := newGuarded(t, quick)
	g.topic(t, "t", 3)
	w := g.dial(t)
	for _, x := range []struct {
		right acl.Operation
		tag   uint32
		want  int
	}{{acl.Describe, view.StartTag, 1}, {acl.Describe, view.StartTag + 1, 0}, {acl.Create, view.StartTag, 0}} {
		g.allow(clusterRight(x.right))
		req := kmsg.NewPtrDescribeClusterRequest()
		req.UnknownTags.Set(x.tag, []byte{})
		got := 0
		for _, b := range ask[*kmsg.DescribeClusterResponse](t, w, 2, req).Brokers {
			b.UnknownTags.Each(func(tag uint32, p []byte) {
				got++
				s, ok := view.ParseStart(p)
				broker, _ := g.image().Broker(b.NodeID)
				if want := (view.Start{Epoch: broker.Epoch, Partitions: 3}); tag != view.StartTag || !ok || s != want {
					t.Errorf("tag %d: %+v, %v, want %+v", tag, s, ok, want)
				}
			})
		}
		if got != x.want {
			t.Errorf("%v: %d starts, want %d", x, got, x.want)
		}
	}
}
