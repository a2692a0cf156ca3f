package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decode reads a request as a broker does.
func decode(t *testing.T, frame []byte, req kmsg.Request) (correlation int32) {
	t.Helper()
	if n := int(binary.BigEndian.Uint32(frame)); n != len(frame)-4 {
		t.Fatalf("length says %d, frame has %d", n, len(frame)-4)
	}
	key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	if key != req.Key() {
		t.Fatalf("key %d, want %d", key, req.Key())
	}
	req.SetVersion(version)
	client := int(binary.BigEndian.Uint16(frame[12:]))
	body := frame[14+client:]
	if body[0] != 0 {
		t.Fatal("tags in the header")
	}
	if err := req.ReadFrom(body[1:]); err != nil {
		t.Fatalf("the request does not decode: %v", err)
	}
	return int32(binary.BigEndian.Uint32(frame[8:]))
}

// valueOf checks the batch of a request as a broker does and returns its value.
func valueOf(t *testing.T, req *kmsg.ProduceRequest) []byte {
	t.Helper()
	rules := record.Rules{}
	got, err := rules.Accept(req.Topics[0].Partitions[0].Records, time.Now())
	if err != nil {
		t.Fatalf("a broker refuses the batch: %v", err)
	}
	if got.Records != 1 {
		t.Fatalf("%d records in a batch", got.Records)
	}
	var value []byte
	must.OK(t, record.Batch(got.Bytes).Each(record.Limits{Bytes: 1 << 20}, func(r record.Record) error {
		value = bytes.Clone(r.Value)
		return nil
	}))
	return value
}

func TestRequestsAreWhatBrokersTake(t *testing.T) {
	for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, size := range []int{0, 28, 200, 20_000} {
			value := bytes.Repeat([]byte("v"), size)
			r, err := NewRequests(Produce{
				Version: MaxProduce, Topic: "topic-of-the-run", Acks: 1, Timeout: 20 * time.Second,
				Compression: compression, Value: value,
			}, 3)
			must.OK(t, err)
			checkRound(t, r, 1, nil, value)
			for round := int32(-1); round < 2; round++ {
				other := bytes.Repeat([]byte{'b' + byte(round)}, size)
				checkRound(t, r, round, other, other)
			}
		}
	}
}

// checkRound adds three requests with a value and reads them as a broker does.
func checkRound(t *testing.T, r *Requests, correlation int32, value, want []byte) {
	t.Helper()
	r.Reset()
	var sizes [3]int
	for i := range int32(3) {
		var err error
		if sizes[i], err = r.Add(correlation+i, 7+i, value); err != nil {
			t.Fatal(err)
		}
	}
	rest := r.Bytes()
	for i := range int32(3) {
		req := kmsg.NewPtrProduceRequest()
		if c := decode(t, rest[:sizes[i]], req); c != correlation+i {
			t.Errorf("correlation %d, want %d", c, correlation+i)
		}
		rt := req.Topics[0]
		if rt.Partitions[0].Partition != 7+i || rt.Topic != "topic-of-the-run" || req.Acks != 1 || req.TimeoutMillis != 20_000 {
			t.Errorf("request %+v", req)
		}
		if got := valueOf(t, req); !bytes.Equal(got, want) {
			t.Errorf("a value of %d bytes is another one", len(want))
		}
		rest = rest[sizes[i]:]
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes behind the requests", len(rest))
	}
}

func TestRequestsRefuseACodec(t *testing.T) {
	if _, err := NewRequests(Produce{Version: MaxProduce, Topic: "t", Compression: "brotli"}, 1); err == nil {
		t.Error("no error")
	}
}

// produced returns a response as a broker writes it.
func produced(version int16, code int16, offset int64, change func(*kmsg.ProduceResponse)) []byte {
	res := kmsg.NewPtrProduceResponse()
	res.Version, res.ThrottleMillis = version, 5
	rt := kmsg.NewProduceResponseTopic()
	rt.Topic = "t"
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition, rp.ErrorCode, rp.BaseOffset = 3, code, offset
	rt.Partitions = append(rt.Partitions, rp)
	res.Topics = append(res.Topics, rt)
	if change != nil {
		change(res)
	}
	return res.AppendTo([]byte{0, 0, 0, 9, 0})
}

func TestReadProduced(t *testing.T) {
	message := "why"
	rich := func(r *kmsg.ProduceResponse) {
		p := &r.Topics[0].Partitions[0]
		p.ErrorMessage = &message
		p.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 1, ErrorMessage: &message}, {}}
		p.CurrentLeader.LeaderID = 4
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host = 4, "elsewhere"
		r.Brokers = append(r.Brokers, b)
	}
	for version := int16(MinProduce); version <= MaxProduce; version++ {
		for _, change := range []func(*kmsg.ProduceResponse){nil, rich} {
			got, err := ReadProduced(produced(version, 6, 1<<40, change), 9, "t", 3)
			if err != nil || got != (Produced{Code: 6, Offset: 1 << 40}) {
				t.Errorf("version %d: %+v, %v", version, got, err)
			}
		}
	}
}

func TestReadProducedIsStrict(t *testing.T) {
	good := produced(MaxProduce, 0, 12, nil)
	for n := range good {
		if _, err := ReadProduced(good[:n], 9, "t", 3); err == nil {
			t.Errorf("the first %d of %d bytes are taken for an answer", n, len(good))
		}
	}
	if _, err := ReadProduced(append(bytes.Clone(good), 0), 9, "t", 3); !errors.Is(err, ErrAnswer) {
		t.Errorf("bytes behind the answer: %v", err)
	}
	for name, read := range map[string]func() (Produced, error){
		"correlation": func() (Produced, error) { return ReadProduced(good, 8, "t", 3) },
		"topic":       func() (Produced, error) { return ReadProduced(good, 9, "u", 3) },
		"partition":   func() (Produced, error) { return ReadProduced(good, 9, "t", 4) },
	} {
		if p, err := read(); !errors.Is(err, ErrOther) || p != (Produced{}) {
			t.Errorf("another %s: %+v, %v", name, p, err)
		}
	}
	none := produced(MaxProduce, 0, 12, func(r *kmsg.ProduceResponse) { r.Topics = nil })
	if _, err := ReadProduced(none, 9, "t", 3); !errors.Is(err, ErrAnswer) {
		t.Errorf("no topic: %v", err)
	}
}

func FuzzReadProduced(f *testing.F) {
	f.Add(produced(MaxProduce, 0, 12, nil))
	f.Add(produced(MinProduce, 6, -1, nil))
	f.Add([]byte{0, 0, 0, 9, 0, 2, 2, 't'})
	f.Fuzz(func(t *testing.T, p []byte) {
		if got, err := ReadProduced(p, 9, "t", 3); err != nil && got != (Produced{}) {
			t.Errorf("%+v with %v", got, err)
		}
	})
}
