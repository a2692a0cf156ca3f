package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// target is a broker to which another one passes requests. It loses them.
type target struct {
	passed chan int32 // the brokers to which requests were passed
	bodies chan []byte

	noLease atomic.Bool // of the front
}

func (x *target) dial(_ context.Context, broker int32, _ *network.Adopted) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		var length [4]byte
		if _, err := io.ReadFull(there, length[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(there, p); err == nil {
			x.passed <- broker
			x.bodies <- p
		}
	}()
	return here, nil
}

// front is a broker with a listener that forwards. After away, broker 1 has everything, and this
// one is another.
func front(t *testing.T) (n *node, x *target, id [16]byte, away func()) {
	x = &target{passed: make(chan int32, 1), bodies: make(chan []byte, 1)}
	n = newNode(t, quick, inCluster(&fakeCluster{}), func(o *nodeOptions) {
		o.listener = network.Listener{Name: "one", Forward: true, AdvertisedHost: "b{id}.kafka", AdvertisedPort: 9094}
		o.broker = func(b *Options) { b.Tunnel, b.Lease = x.dial, func() bool { return !x.noLease.Load() } }
	})
	id = n.topic(t, "t", 2)
	n.coordinates(t)
	n.coordinatesTransactions(t)
	n.coordinatesShares(t, id)
	return n, x, id, func() {
		n.server.Load().Connections() // their requests so far are handled: each has its lock
		n.opt.Self = 99
		n.server.Load().Connections()
	}
}

// A front that may not know who leads what sends its clients to another one, but answers their
// first request: without that they give up.
func TestAFrontWithoutALeaseEndsConnections(t *testing.T) {
	n, x, _, _ := front(t)
	x.noLease.Store(true)
	w := n.dial(t)
	if resp := ask[*kmsg.ApiVersionsResponse](t, w, 4, apiVersionsRequest("a", "1")); resp.ErrorCode != 0 {
		t.Errorf("ApiVersions: %d", resp.ErrorCode)
	}
	must(t, w.send(metadataRequest(true, "t")))
	if _, err := w.body(); err == nil {
		t.Error("it answers Metadata")
	}
}

// Each request goes whole to the broker of its route. When it is lost there, its answer has only
// errors at which clients repeat it; without a field for them the connection is reset. A Produce
// ends its connection.
func TestLostRequestsHaveAnswers(t *testing.T) {
	n, x, id, away := front(t)
	away()
	for _, a := range apis() {
		if a.route == "" || a.route == byAll || a.route == byNone {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			t.Run(fmt.Sprintf("%s/%d", a.Name(), v), func(t *testing.T) {
				req := kmsg.RequestForKey(a.Key)
				req.SetVersion(v)
				fillRequest(req, id)
				switch r := req.(type) {
				case *kmsg.DescribeConfigsRequest:
					r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}}
				case *kmsg.IncrementalAlterConfigsRequest:
					r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
						{ResourceType: kmsg.ConfigResourceTypeBrokerLogger, ResourceName: "1"}}
				case *kmsg.InitProducerIDRequest:
					r.TransactionalID = kmsg.StringPtr("tx")
				}
				w := n.dial(t)
				must(t, w.send(req))
				body, err := w.body()
				if len(x.passed) == 0 {
					t.Fatalf("it was not passed on: %x, %v", body, err)
				}
				if to := <-x.passed; to != 1 {
					t.Errorf("it was passed to broker %d", to)
				}
				sent := <-x.bodies
				if want := req.AppendTo(nil); len(sent) < len(want) || !bytes.Equal(sent[len(sent)-len(want):], want) {
					t.Error("it was passed on changed")
				}
				if n.entries[a.Key].overloaded == nil && a.route == byBroker || a.Key == protocol.KeyProduce {
					if err == nil {
						t.Error("an answer")
					}
					return
				}
				must(t, err)
				resp := req.ResponseKind()
				resp.SetVersion(v)
				if resp.IsFlexible() {
					body = body[1:]
				}
				must(t, resp.ReadFrom(body))
				codes := 0
				errorCodes(reflect.ValueOf(resp), func(code int16) {
					if code == 0 {
						return
					}
					codes++
					if e := kerr.TypedErrorForCode(code); e == nil || !e.Retriable {
						t.Errorf("error %d in %+v", code, resp)
					}
				})
				if codes == 0 {
					t.Errorf("no error in %+v", resp)
				}
			})
		}
	}
}

// Whatever this broker serves itself is not passed on, and answers name one address for all.
func TestAListenerThatForwards(t *testing.T) {
	n, x, id, away := front(t)
	w := n.dial(t)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	fillRequest(fetch, id)
	fetch.SessionEpoch = 0
	must(t, w.send(fetch))
	body, err := w.body()
	must(t, err)
	fetched := kmsg.NewPtrFetchResponse()
	fetched.Version = 12
	must(t, fetched.ReadFrom(body[1:]))
	if fetched.ErrorCode != 0 || fetched.SessionID != 0 || fetched.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v", fetched)
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	must(t, w.send(versions))
	body, err = w.body()
	must(t, err)
	listed := kmsg.NewPtrApiVersionsResponse()
	must(t, listed.ReadFrom(body))
	for _, v := range listed.ApiKeys {
		if v.ApiKey == int16(kmsg.DescribeLogDirs) {
			t.Error("DescribeLogDirs is listed")
		}
	}
	named := kmsg.NewPtrApiVersionsRequest()
	named.Version, named.ClientSoftwareName, named.ClientSoftwareVersion = 5, "some-client", "1.0"
	named.ClusterID = kmsg.StringPtr(n.image().ClusterID())
	for node, want := range map[int32]int16{1: 0, 7: kerr.RebootstrapRequired.Code} {
		named.NodeID = node
		must(t, w.send(named))
		body, err = w.body()
		must(t, err)
		if code := int16(body[0])<<8 | int16(body[1]); code != want {
			t.Errorf("node %d: error %d, want %d", node, code, want)
		}
	}
	away()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 4
	must(t, w.send(metadata))
	body, err = w.body()
	must(t, err)
	shown := kmsg.NewPtrMetadataResponse()
	shown.Version = 4
	must(t, shown.ReadFrom(body))
	if len(shown.Brokers) != 1 || shown.Brokers[0].Host != "b1.kafka" || shown.Brokers[0].Port != 9094 || shown.Brokers[0].NodeID != 1 {
		t.Errorf("%+v", shown.Brokers)
	}
	if len(x.passed) > 0 {
		t.Error("a request was passed on")
	}
	if other := n.dial(t); true {
		dirs := kmsg.NewPtrDescribeLogDirsRequest()
		dirs.Version = 1
		must(t, other.send(dirs))
		if _, err := other.body(); err == nil {
			t.Error("an answer to DescribeLogDirs")
		}
	}
}

// Through one address, an idempotent Produce that is sent again ends its connection: a later one
// that the client has sent already could come to another leader first, which takes any sequence
// number of a producer that it does not know.
func TestAProduceThatIsSentAgainEndsItsConnection(t *testing.T) {
	for _, one := range []bool{false, true} {
		for _, producer := range []*record.Producer{nil, {ID: 5}} {
			t.Run(fmt.Sprintf("one address %v, idempotent %v", one, producer != nil), func(t *testing.T) {
				fs := vfs.Memory()
				on := func(o *nodeOptions) { o.fs, o.listener.Forward = fs, one }
				var id [16]byte
				t.Run("before", func(t *testing.T) { id = newNode(t, on).topic(t, "t", 1) })
				must(t, fs.RemoveAll("/data/logs"))
				w := newNode(t, on).dial(t)
				req := produceRequest("t", id, -1, batchOf(t, record.BatchOptions{Producer: producer}, time.Now().UnixMilli(), "a"))
				req.Version = 9
				must(t, w.send(req))
				resp, err := w.receive(req)
				if ended := one && producer != nil; ended {
					if err == nil {
						t.Errorf("%+v", resp)
					}
					return
				}
				must(t, err)
				if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.KafkaStorageError.Code {
					t.Errorf("error %d", code)
				}
			})
		}
	}
}

// A client of another broker is never passed further.
func TestForwardedRequestsGoNoFurther(t *testing.T) {
	n, _, _, away := front(t)
	away()
	r := &network.Request{Listener: &network.Listener{Forward: true}, Session: &network.Session{Via: true}}
	if n.forwards(r) {
		t.Error("it would be")
	}
}
