package load

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bench/meter"
	"github.com/chronik-io/chronik/internal/bench/wire"
)

// wireHook counts the requests and bytes of one API of a kgo client.
type wireHook struct {
	key    int16
	window *meter.Window
	lane   *meter.Lane
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
	h.lane.Count(h.window.Now(), a)
}

// closeWait bounds how long a client's end waits for what it has in flight.
const closeWait = 5 * time.Second

// producerClient is a kgo producer for o, with kgo's defaults but for what extra
// says.
func producerClient(o *Options, m *meter.Meter, extra ...kgo.Opt) (*kgo.Client, error) {
	acks := kgo.AllISRAcks()
	switch o.Acks {
	case 0:
		acks = kgo.NoAck()
	case 1:
		acks = kgo.LeaderAck()
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Cluster.Seeds...), kgo.ClientID(wire.ClientID), kgo.DefaultProduceTopic(o.Cluster.Topic),
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec(o.Compression)), kgo.RecordDeliveryTimeout(answerTimeout),
		kgo.WithHooks(&wireHook{key: kmsg.Produce.Int16(), window: m.Window(), lane: m.Lane()}),
	}
	if o.Acks >= 0 {
		// Idempotence needs acks=all.
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if need := int32(o.MessageSize) + 1024; need > 1_000_000 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(need), kgo.BrokerMaxWriteBytes(max(need+1024, 100<<20)))
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("make a producer: %w", err)
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

// drain waits for what a client has in flight, but not for ever, and closes it:
// what is left then fails.
func drain(ctx context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	// What could not be flushed is counted by its promise.
	_ = cl.Flush(ctx)
	cl.Close()
}

// message is one value on its way through a kgo producer.
type message struct {
	rec      kgo.Record
	began    time.Duration
	sequence uint64
	value    []byte // stamped values need memory of their own
}

// maker makes the records of one worker of a kgo producer.
type maker struct {
	o       *Options
	window  *meter.Window
	lane    *meter.Lane
	account *Account
	values  *values
	index   uint32
}

// newMaker makes that of worker i; the pool of from is shared.
func newMaker(o *Options, m *meter.Meter, i int, from *values) *maker {
	k := &maker{o: o, window: m.Window(), lane: m.Lane(), values: from.startingAt(i), index: uint32(i)}
	if o.Ledger != nil {
		k.account = o.Ledger.Worker(i)
	}
	return k
}

// fill makes m the next record, counted from began.
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

// delivered counts what became of a record.
func (k *maker) delivered(m *message, now time.Duration, offset int64, err error) {
	switch {
	case err != nil:
		k.lane.Fail(m.began, now, failureName(err), 1)
	case k.o.Acks != 0 && offset < 0:
		k.lane.Fail(m.began, now, noOffset, 1)
	default:
		if k.account != nil && k.o.Acks != 0 {
			k.account.Acked(m.sequence)
		}
		// The client's requests are counted by its hook.
		k.lane.Done(m.began, now, meter.Amount{Records: 1, Payload: int64(len(m.rec.Value))})
	}
}
