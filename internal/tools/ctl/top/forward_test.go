package top

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Behind one address for all brokers, the one to which the client is connected answers for each.
// Its figures are shown as its own only, and one note says what is unknown, also with --watch.
func TestFiguresOfAnotherBrokerAreNotShown(t *testing.T) {
	report, err := (&health.Report{Broker: 2, Findings: []health.Finding{}, Load: &health.Load{Connections: 7}}).Encode(health.MaxBytes)
	must.OK(t, err)
	var port int32
	port = fakebroker.Serve(t, func(req kmsg.Request) kmsg.Response {
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest:
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			for key, most := range map[kmsg.Key]int16{kmsg.ApiVersions: 3, kmsg.Metadata: 9, kmsg.DescribeCluster: 2} {
				resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: most})
			}
			return resp
		case *kmsg.MetadataRequest:
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			resp.ControllerID = 1
			for id := range int32(3) {
				resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: id + 1, Host: fakebroker.Host, Port: port})
			}
			return resp
		case *kmsg.DescribeClusterRequest:
			resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
			resp.UnknownTags.Set(health.Tag, report)
			return resp
		}
		return nil
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", fakebroker.Host, port)))
	must.OK(t, err)
	defer cl.Close()
	var out, errs bytes.Buffer
	x := &top{a: app.New("v1", app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}), interval: time.Millisecond}
	x.a.Settings, err = contexts.Resolve(contexts.Input{NoFile: true, Getenv: func(string) string { return "" },
		Flags: map[string]string{contexts.Admin: contexts.Off}})
	must.OK(t, err)
	for range 2 {
		_ = x.run(t.Context(), kadm.NewClient(cl), cl, nil) // it fails: the broker has neither offsets nor groups
	}
	for _, b := range x.before.brokers {
		if l, ok := x.before.loads[b.id]; ok != (b.id == 2) || ok && l.Connections != 7 {
			t.Errorf("broker %d: %+v", b.id, l)
		}
	}
	const note = "note: requests of brokers 1,3: another broker answered, as behind one address for all, so ? is shown; " +
		"ask a listener without route: forward\n"
	if strings.Count(errs.String(), note) != 1 || strings.Count(errs.String(), "another broker") != 1 {
		t.Error(errs.String())
	}
}
