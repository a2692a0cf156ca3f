package load

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// wireHook counts the requests and bytes of one API of a kgo client.
type wireHook struct {
	key      int16
	window   *meter.Window
	recorder *meter.Recorder
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (h *wireHook) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key != h.key {
		return
	}
	a := meter.Amount{Wire: int64(e.BytesWritten + e.BytesRead)}
	if e.Err() == nil {
		a.Requests = 1
	}
	h.recorder.Count(h.window.Now(), a)
}

// closeWait bounds how long the end of a client waits for its in-flight records.
const closeWait = 5 * time.Second

// producerClient returns a kgo producer for o, with kgo's defaults except for the options extra.
func producerClient(o *Options, m *meter.Meter, extra ...kgo.Opt) (*kgo.Client, error) {
	acks := kgo.AllISRAcks()
	switch o.Acks {
	case 0:
		acks = kgo.NoAck()
	case 1:
		acks = kgo.LeaderAck()
	}
	opts := append(Reach(o.Cluster.Seeds, o.Cluster.Secure), kgo.ClientID(cmp.Or(o.ClientID, wire.ClientID)),
		kgo.DefaultProduceTopic(o.Cluster.Topic),
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec(o.Compression)), kgo.RecordDeliveryTimeout(answerTimeout),
		kgo.WithHooks(&wireHook{key: kmsg.Produce.Int16(), window: m.Window(), recorder: m.NewRecorder()}))
	if o.Acks >= 0 {
		// Idempotence needs acks=all.
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if need := int32(o.MessageSize) + 1024; need > 1_000_000 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(need), kgo.BrokerMaxWriteBytes(max(need+1024, 100<<20)))
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("create a producer: %w", err)
	}
	return cl, nil
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	default:
		return kgo.NoCompression()
	}
}

// drain waits a limited time for the in-flight records of a client and closes it, which fails the
// others.
func drain(ctx context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	// The promises count the records that could not be flushed.
	_ = cl.Flush(ctx)
	cl.Close()
}

// message is one value that a kgo producer sends.
type message struct {
	rec      kgo.Record
	began    time.Duration
	sequence uint64
	value    []byte // stamped values need memory of their own
}

// maker creates the records of one worker of a kgo producer.
type maker struct {
	o        *Options
	window   *meter.Window
	recorder *meter.Recorder
	account  *Account
	values   *values
	index    uint32
}

// newMaker returns the maker of worker i; all share the pool of from.
func newMaker(o *Options, m *meter.Meter, i int, from *values) *maker {
	k := &maker{o: o, window: m.Window(), recorder: m.NewRecorder(), values: from.startingAt(i), index: uint32(i)}
	if o.Ledger != nil {
		k.account = o.Ledger.Worker(i)
	}
	return k
}

// fill makes m the next record, whose latency counts from began.
func (k *maker) fill(m *message, began time.Duration) error {
	m.began, m.sequence = began, 0
	value := k.values.next()
	if k.o.Stamped {
		m.value = append(m.value[:0], value...)
		value = m.value
		if k.account != nil {
			var err error
			if m.sequence, err = k.account.Send(); err != nil {
				return err
			}
		}
		Stamp{Run: k.o.Run, Worker: k.index, Sequence: m.sequence, Sent: began}.Put(value)
	}
	m.rec = kgo.Record{Value: value}
	return nil
}

// delivered counts the outcome of a record.
func (k *maker) delivered(m *message, now time.Duration, offset int64, err error) {
	switch {
	case err != nil:
		k.recorder.Fail(m.began, now, FailureName(err), 1)
	case k.o.Acks != 0 && offset < 0:
		k.recorder.Fail(m.began, now, noOffset, 1)
	default:
		if k.account != nil && k.o.Acks != 0 {
			k.account.Acked(m.sequence)
		}
		// The client's requests are counted by its hook.
		k.recorder.Done(m.began, now, meter.Amount{Records: 1, Payload: int64(len(m.rec.Value))})
	}
}
