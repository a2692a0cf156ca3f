package load

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is the reaction of a fake broker to a Produce or Fetch request.
type reply struct {
	code   int16
	offset int64
	raw    []byte // sent instead of a response, then the connection ends
	quit   bool   // the connection ends without a response
	silent bool   // no response, and the connection stays
	// cut shortens the response to so many bytes after a correct length.
	cut int
	// other changes the response's correlation id.
	other bool
	// records is the content of a fetch.
	records []byte
	mark    int64 // high watermark of a fetch
}

// fake is a broker with responses from the test.
type fake struct {
	t          *testing.T
	l          net.Listener
	partitions int32
	produceMax int16
	// peer leads the partitions for which leads returns true; nil for none.
	peer  *fake
	leads func(partition int32) bool
	// on is called for each Produce or Fetch, one at a time, with their number.
	on func(n int, req kmsg.Request) reply

	mu    sync.Mutex
	n     int
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// startFake serves until the test ends.
func startFake(t *testing.T, partitions int32, on func(int, kmsg.Request) reply) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	f := &fake{t: t, l: l, partitions: partitions, produceMax: 12, on: on, conns: make(map[net.Conn]bool)}
	f.wg.Go(f.accept)
	t.Cleanup(func() {
		f.l.Close()
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.wg.Wait()
	})
	return f
}

func (f *fake) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		f.wg.Go(func() {
			defer c.Close()
			f.serve(c)
		})
	}
}

func (f *fake) serve(c net.Conn) {
	var size [4]byte
	for {
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		out, more := f.answer(p)
		if _, err := c.Write(out); err != nil || !more {
			return
		}
	}
}

// answer decodes a request and returns the bytes to send for it.
func (f *fake) answer(p []byte) (out []byte, more bool) {
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(p)))
	req.SetVersion(int16(binary.BigEndian.Uint16(p[2:])))
	body := p[10+max(int(int16(binary.BigEndian.Uint16(p[8:]))), 0):]
	if req.IsFlexible() {
		body = body[1:]
	}
	if err := req.ReadFrom(body); err != nil {
		f.t.Errorf("a request that does not decode: %v", err)
		return nil, false
	}
	res, r := req.ResponseKind(), reply{}
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		f.versions(res.(*kmsg.ApiVersionsResponse))
	case *kmsg.MetadataRequest:
		f.metadata(res.(*kmsg.MetadataResponse))
	case *kmsg.ListOffsetsRequest:
		f.offsets(req, res.(*kmsg.ListOffsetsResponse))
	case *kmsg.ProduceRequest:
		if r = f.next(req); req.Acks == 0 {
			return nil, !r.quit
		}
		produced(req, res.(*kmsg.ProduceResponse), r)
	case *kmsg.FetchRequest:
		r = f.next(req)
		fetched(req, res.(*kmsg.FetchResponse), r)
	default:
		f.t.Errorf("unexpected request %T", req)
	}
	if r.raw != nil || r.quit || r.silent {
		return r.raw, r.silent
	}
	correlation := binary.BigEndian.Uint32(p[4:])
	if r.other {
		correlation++
	}
	out = framed(correlation, res)
	if r.cut > 0 {
		out = out[:4+r.cut]
		binary.BigEndian.PutUint32(out, uint32(r.cut))
	}
	return out, true
}

func framed(correlation uint32, res kmsg.Response) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 4), correlation)
	if res.IsFlexible() && res.Key() != kmsg.ApiVersions.Int16() {
		out = append(out, 0)
	}
	out = res.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (f *fake) next(req kmsg.Request) reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.on(f.n, req)
}

func (f *fake) versions(res *kmsg.ApiVersionsResponse) {
	for key, top := range map[kmsg.Key]int16{kmsg.Produce: f.produceMax, kmsg.Fetch: 12, kmsg.ListOffsets: 6, kmsg.Metadata: 9,
		kmsg.ApiVersions: 3} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key.Int16(), top
		res.ApiKeys = append(res.ApiKeys, k)
	}
}

func (f *fake) metadata(res *kmsg.MetadataResponse) {
	for id, broker := range map[int32]*fake{1: f, 2: f.peer} {
		if broker == nil {
			continue
		}
		at := broker.l.Addr().(*net.TCPAddr)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = id, at.IP.String(), int32(at.Port)
		res.Brokers = append(res.Brokers, b)
	}
	rt := kmsg.NewMetadataResponseTopic()
	name := "t"
	rt.Topic = &name
	for p := range f.partitions {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition, rp.Leader = p, 1
		if f.peer != nil && f.leads(p) {
			rp.Leader = 2
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	res.Topics = append(res.Topics, rt)
}

// offsets reports that each partition holds offsets 10 to 20.
func (f *fake) offsets(req *kmsg.ListOffsetsRequest, res *kmsg.ListOffsetsResponse) {
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset = p.Partition, 20
			if p.Timestamp == -2 {
				rp.Offset = 10
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
}

func produced(req *kmsg.ProduceRequest, res *kmsg.ProduceResponse, r reply) {
	rt := kmsg.NewProduceResponseTopic()
	rt.Topic = req.Topics[0].Topic
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition, rp.ErrorCode, rp.BaseOffset = req.Topics[0].Partitions[0].Partition, r.code, r.offset
	rt.Partitions = append(rt.Partitions, rp)
	res.Topics = append(res.Topics, rt)
}

func fetched(req *kmsg.FetchRequest, res *kmsg.FetchResponse, r reply) {
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic = req.Topics[0].Topic
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.ErrorCode, rp.RecordBatches = req.Topics[0].Partitions[0].Partition, r.code, r.records
	rp.HighWatermark, rp.LogStartOffset = r.mark, 10
	rt.Partitions = append(rt.Partitions, rp)
	res.Topics = append(res.Topics, rt)
}

// options are those of a run of one worker against the fake.
func (f *fake) options() Options {
	f.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.l.Addr().String()), Fresh())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(cl.Close)
	c := NewCluster([]string{f.l.Addr().String()}, "t", nil, cl)
	if err := c.Load(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	return Options{Cluster: c, Concurrency: 1, Pipeline: 1, MessageSize: 100, Acks: -1, Compression: "none", FetchMaxBytes: 1 << 20}
}

// window returns a window that begins now and is cut by the test.
func window() *meter.Window { return meter.NewWindow(0, time.Hour) }

// runOwn runs a raw producer until the fake cuts the window, and returns its figures.
func runOwn(t *testing.T, o Options, w *meter.Window) meter.Totals {
	t.Helper()
	m := meter.New(w)
	g, err := NewOwn(context.Background(), o, m)
	must.OK(t, err)
	defer g.Close()
	w.Begin()
	must.OK(t, g.Run(context.Background()))
	return m.Totals()
}
