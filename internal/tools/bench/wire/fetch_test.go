package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestFetchRequestIsWhatBrokersTake(t *testing.T) {
	f := NewFetchRequest("", "t", 5<<20, 250)
	for i := range int32(3) {
		req := kmsg.NewPtrFetchRequest()
		if c := decode(t, f.Bytes(40+i, 7*i, 1<<33+int64(i)), req); c != 40+i {
			t.Errorf("correlation %d", c)
		}
		p := req.Topics[0].Partitions[0]
		if p.Partition != 7*i || p.FetchOffset != 1<<33+int64(i) || p.PartitionMaxBytes != 5<<20 || req.MaxBytes != 5<<20 ||
			req.MinBytes != 1 || req.MaxWaitMillis != 250 || req.SessionEpoch != -1 || req.ReplicaID != -1 {
			t.Errorf("request %+v", req)
		}
	}
}

func fetched(change func(*kmsg.FetchResponse)) []byte {
	res := kmsg.NewPtrFetchResponse()
	res.Version = FetchVersion
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic = "t"
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset, rp.RecordBatches = 3, 100, 90, 10, []byte("batches")
	rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
	rt.Partitions = append(rt.Partitions, rp)
	res.Topics = append(res.Topics, rt)
	if change != nil {
		change(res)
	}
	return res.AppendTo([]byte{0, 0, 0, 9, 0})
}

func TestReadFetched(t *testing.T) {
	good := fetched(nil)
	got, err := ReadFetched(good, 9, "t", 3)
	must.OK(t, err)
	if diff := cmp.Diff(Fetched{HighWatermark: 100, LogStart: 10, Batches: []byte("batches")}, got); diff != "" {
		t.Error(diff)
	}
	for n := range good {
		if _, err := ReadFetched(good[:n], 9, "t", 3); err == nil {
			t.Errorf("the first %d of %d bytes are taken for an answer", n, len(good))
		}
	}
	whole := fetched(func(r *kmsg.FetchResponse) { r.ErrorCode, r.Topics = 70, nil })
	if got, err := ReadFetched(whole, 9, "t", 3); err != nil || got.Code != 70 {
		t.Errorf("an error of the whole request: %+v, %v", got, err)
	}
	one := fetched(func(r *kmsg.FetchResponse) {
		r.Topics[0].Partitions[0].ErrorCode, r.Topics[0].Partitions[0].RecordBatches = 6, nil
	})
	if got, err := ReadFetched(one, 9, "t", 3); err != nil || got.Code != 6 || len(got.Batches) != 0 {
		t.Errorf("an error of the partition: %+v, %v", got, err)
	}
	if _, err := ReadFetched(good, 9, "t", 4); !errors.Is(err, ErrOther) {
		t.Errorf("another partition: %v", err)
	}
}

// batch returns a batch with so many records from offset on.
func batch(t *testing.T, offset int64, records int, o record.BatchOptions) []byte {
	t.Helper()
	o.BaseOffset = offset
	b := record.NewBuilder(o)
	for range records {
		b.Append(1, nil, []byte("value"), nil)
	}
	out, err := b.Build()
	must.OK(t, err)
	return out
}

func TestCountBatches(t *testing.T) {
	plain := func(offset int64, n int) []byte { return batch(t, offset, n, record.BatchOptions{}) }
	three := append(plain(100, 5), plain(105, 7)...)
	cut := append(bytes.Clone(three), plain(112, 3)[:80]...)
	control := append(
		bytes.Clone(three),
		batch(t, 112, 1, record.BatchOptions{Control: true, Transactional: true, Producer: &record.Producer{ID: 1}})...)
	for _, c := range []struct {
		name   string
		p      []byte
		offset int64
		want   Counted
	}{
		{"nothing", nil, 4, Counted{Next: 4}},
		{"two", three, 100, Counted{Records: 12, Bytes: int64(len(three)), Next: 112}},
		{"from the middle of the first", three, 103, Counted{Records: 9, Bytes: int64(len(three)), Next: 112}},
		{"the last cut short", cut, 100, Counted{Records: 12, Bytes: int64(len(three)), Next: 112}},
		{"a control batch", control, 100, Counted{Records: 12, Bytes: int64(len(control)), Next: 113}},
		{"a gap before", three, 50, Counted{Records: 12, Bytes: int64(len(three)), Next: 112}},
	} {
		if got, err := CountBatches(c.p, c.offset); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	old := bytes.Clone(three)
	old[16] = 1
	short := bytes.Clone(three)
	binary.BigEndian.PutUint32(short[8:], 10)
	for name, p := range map[string][]byte{"magic 1": old, "a length below the header's": short,
		"backwards": append(plain(105, 7), plain(100, 5)...)} {
		if got, err := CountBatches(p, 100); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := CountBatches(three, 112); !errors.Is(err, ErrAnswer) {
		t.Errorf("batches below the offset asked for: %v", err)
	}
}

func FuzzReadFetched(f *testing.F) {
	f.Add(fetched(nil))
	f.Add([]byte{0, 0, 0, 9, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := ReadFetched(p, 9, "t", 3)
		if err != nil {
			return
		}
		c, err := CountBatches(got.Batches, 5)
		if c.Bytes > int64(len(got.Batches)) || c.Next < 5 || c.Records < 0 {
			t.Errorf("%+v, %v of %d bytes", c, err, len(got.Batches))
		}
	})
}

func FuzzCountBatches(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(bytes.Repeat([]byte{0, 2}, 80), int64(1))
	f.Fuzz(func(t *testing.T, p []byte, offset int64) {
		if c, _ := CountBatches(p, offset); c.Bytes > int64(len(p)) || c.Next < offset || c.Records < 0 {
			t.Errorf("%+v of %d bytes", c, len(p))
		}
	})
}
