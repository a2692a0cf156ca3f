package txn

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// fake is a broker with one topic of two partitions. No broker of ours lets a transaction hang, so
// the tests need one that reports whatever they say.
type fake struct {
	host string
	port int32

	mu        sync.Mutex
	open      map[int32][]kmsg.DescribeProducersResponseTopicPartitionActiveProducer // by partition
	ids       map[string]kmsg.DescribeTransactionsResponseTransactionState
	stateOff  bool           // a partition of __transaction_state has no leader
	moves     bool           // the leaders of __transaction_state change with each ListTransactions
	epoch     int32          // of these leaders
	busy      int            // how often InitProducerId answers CONCURRENT_TRANSACTIONS
	begun     map[string]int // InitProducerId by id
	limit     int32          // transaction.max.timeout.ms; 0: none
	marked    []kmsg.WriteTxnMarkersRequestMarker
	described func(times int) // called at each DescribeProducers
	times     int
}

const fakeTopic = "orders"

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{host: fakebroker.Host, begun: map[string]int{},
		open: map[int32][]kmsg.DescribeProducersResponseTopicPartitionActiveProducer{},
		ids:  map[string]kmsg.DescribeTransactionsResponseTransactionState{}}
	port := fakebroker.Serve(t, f.answer)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.port = port
	return f
}

// answer returns the response to a request, or nil to close the connection.
func (f *fake) answer(req kmsg.Request) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, k := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.ListTransactions,
			kmsg.DescribeTransactions,
			kmsg.DescribeProducers, kmsg.InitProducerID, kmsg.WriteTxnMarkers, kmsg.ListOffsets, kmsg.Fetch, kmsg.DescribeConfigs} {
			most := map[kmsg.Key]int16{kmsg.Metadata: 9, kmsg.Fetch: 11, kmsg.WriteTxnMarkers: 1}[k]
			if most == 0 {
				most = min(kmsg.RequestForKey(int16(k)).MaxVersion(), 3)
			}
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(k), MaxVersion: most})
		}
		return resp
	case *kmsg.MetadataRequest:
		return f.metadata(req)
	case *kmsg.FindCoordinatorRequest:
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.NodeID, resp.Host, resp.Port = 1, f.host, f.port
		return resp
	case *kmsg.ListTransactionsRequest:
		if f.moves {
			f.epoch++
		}
		resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
		for id, t := range f.ids {
			resp.TransactionStates = append(resp.TransactionStates, kmsg.ListTransactionsResponseTransactionState{TransactionalID: id,
				ProducerID: t.ProducerID, TransactionState: t.State})
		}
		return resp
	case *kmsg.DescribeTransactionsRequest:
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		for _, id := range req.TransactionalIDs {
			t, ok := f.ids[id]
			if t.TransactionalID = id; !ok {
				t.ErrorCode = kerr.TransactionalIDNotFound.Code
			}
			resp.TransactionStates = append(resp.TransactionStates, t)
		}
		return resp
	case *kmsg.DescribeProducersRequest:
		return f.producers(req)
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		if f.busy > 0 {
			f.busy--
			resp.ErrorCode = kerr.ConcurrentTransactions.Code
			return resp
		}
		if f.limit > 0 && req.TransactionTimeoutMillis > f.limit {
			resp.ErrorCode = kerr.InvalidTransactionTimeout.Code
			return resp
		}
		f.begun[*req.TransactionalID]++
		resp.ProducerID, resp.ProducerEpoch = f.ids[*req.TransactionalID].ProducerID, f.ids[*req.TransactionalID].ProducerEpoch+2
		return resp
	case *kmsg.WriteTxnMarkersRequest:
		return f.markers(req)
	case *kmsg.ListOffsetsRequest:
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		at := map[int8]int64{0: 30, 1: 10}[req.IsolationLevel]
		for _, t := range req.Topics {
			x := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				x.Partitions = append(x.Partitions,
					kmsg.ListOffsetsResponseTopicPartition{Partition: p.Partition, Offset: at, LeaderEpoch: -1})
			}
			resp.Topics = append(resp.Topics, x)
		}
		return resp
	}
	return nil
}

func (f *fake) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = 1
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: f.host, Port: f.port}}
	names := []string{fakeTopic, stateTopic}
	if req.Topics != nil {
		names = nil
		for _, t := range req.Topics {
			names = append(names, *t.Topic)
		}
	}
	for _, name := range names {
		t := kmsg.MetadataResponseTopic{Topic: &name}
		if name != fakeTopic && name != stateTopic {
			t.ErrorCode = kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, t)
			continue
		}
		for p := range int32(2) {
			leader := int32(1)
			if name == stateTopic && f.stateOff {
				leader = -1
			}
			t.Partitions = append(t.Partitions, kmsg.MetadataResponseTopicPartition{Partition: p, Leader: leader, LeaderEpoch: f.epoch,
				Replicas: []int32{1}, ISR: []int32{1}})
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (f *fake) producers(req *kmsg.DescribeProducersRequest) kmsg.Response {
	f.times++
	if f.described != nil {
		f.described(f.times)
	}
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, t := range req.Topics {
		x := kmsg.DescribeProducersResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			y := kmsg.DescribeProducersResponseTopicPartition{Partition: p}
			if t.Topic == fakeTopic {
				y.ActiveProducers = f.open[p]
			}
			x.Partitions = append(x.Partitions, y)
		}
		resp.Topics = append(resp.Topics, x)
	}
	return resp
}

func (f *fake) markers(req *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.Markers {
		f.marked = append(f.marked, m)
		x := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
		for _, t := range m.Topics {
			y := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				y.Partitions = append(y.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p})
			}
			x.Topics = append(x.Topics, y)
		}
		resp.Markers = append(resp.Markers, x)
	}
	return resp
}

// connected is an App with the clients of a command.
type connected struct {
	*app.App
	adm *kadm.Client
	cl  *kgo.Client
}

// app returns an App that is connected to the broker.
func (f *fake) app(t *testing.T) (c *connected, done func()) {
	t.Helper()
	c = &connected{}
	root := &cobra.Command{Use: "x"}
	c.App = app.New("v1", app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard,
		Getenv: func(string) string { return "" }})
	root.AddCommand(&cobra.Command{Use: "y", RunE: func(cmd *cobra.Command, _ []string) error {
		var err error
		c.cl, err = c.Client(cmd.Context())
		return err
	}})
	c.Prepare(root)
	root.SetArgs([]string{"y", "--brokers", f.address()})
	must.OK(t, root.ExecuteContext(t.Context()))
	c.adm = kadm.NewClient(c.cl)
	return c, c.cl.Close
}

func (f *fake) address() string { return net.JoinHostPort(f.host, strconv.Itoa(int(f.port))) }

// run runs a command line below txn and returns what it prints, its exit code and its error.
func (f *fake) run(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var b bytes.Buffer
	env := map[string]string{"HOME": t.TempDir(), "CHRONIKCTL_BROKERS": f.address()}
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Out: &b, Err: io.Discard,
		Getenv: func(name string) string { return env[name] }})
	root := &cobra.Command{Use: "chronikctl", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(a))
	a.Prepare(root)
	root.SetArgs(append([]string{"txn"}, args...))
	err = root.ExecuteContext(context.Background())
	return b.String(), app.ExitCode(err), err
}
