package broker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// A client that asks for the health report gets it in a tagged field, which needs the right to
// describe the cluster. Others get an answer without it, and no answer is large.
func TestTheHealthReportInAnAnswer(t *testing.T) {
	g := newGuarded(t, quick)
	report := &health.Report{Broker: 1, Findings: []health.Finding{}}
	for range 100 {
		report.Findings = append(report.Findings, health.Finding{Check: "space", Severity: health.Bad, Problem: strings.Repeat("x", 4000)})
	}
	g.Handler.opt.Report = func() *health.Report { return report }
	w := g.dial(t)
	for _, x := range []struct {
		name     string
		tag      uint32
		right    acl.Operation
		has, got bool
	}{
		{"not asked for", health.Tag + 1, acl.Describe, false, false},
		{"asked for", health.Tag, acl.Describe, true, true},
		{"without the right", health.Tag, acl.Create, true, false},
	} {
		g.allow(clusterRight(x.right))
		for version := range int16(3) {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.UnknownTags.Set(x.tag, []byte{})
			resp := ask[*kmsg.DescribeClusterResponse](t, w, version, req)
			has := false
			resp.UnknownTags.Each(func(tag uint32, p []byte) {
				has = true
				r, err := health.Decode(p)
				if tag != health.Tag || len(p) > health.MaxAnswer || (err == nil) != x.got {
					t.Errorf("%s, version %d: tag %d, %d bytes, %v", x.name, version, tag, len(p), err)
				}
				if x.got && (r.Omitted == 0 || r.Omitted+len(r.Findings) != len(report.Findings)) {
					t.Errorf("%s, version %d: %d findings, %d are left out", x.name, version, len(r.Findings), r.Omitted)
				}
				if !x.got && !errors.Is(err, health.ErrDenied) {
					t.Errorf("%s: %v", x.name, err)
				}
			})
			if has != x.has || len(resp.Brokers) != 1 {
				t.Errorf("%s, version %d: a report %v, %d brokers", x.name, version, has, len(resp.Brokers))
			}
		}
	}
}

// However many clients ask for the report, it takes a tenth of a processor.
func TestReportsAreMadeRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := int32(0)
		b := &Handler{opt: Options{Report: func() *health.Report {
			time.Sleep(10 * time.Millisecond)
			made++
			return &health.Report{Broker: made}
		}}}
		for begun := time.Now(); time.Since(begun) < time.Second; time.Sleep(time.Millisecond) {
			r, err := health.Decode(b.encodedReport())
			if err != nil || r.Broker != made {
				t.Fatalf("report %+v, %v; %d were made", r, err, made)
			}
		}
		if made < 9 || made > 11 {
			t.Errorf("%d reports in a second", made)
		}
	})
}

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
