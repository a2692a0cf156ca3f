package wire

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
)

// Versions of Produce that Requests builds: flexible, and with the topic's name. From 13 on
// (KIP-516) requests identify topics by id.
const (
	MinProduce = 9
	MaxProduce = 12
)

// ClientID is the client id of requests that have no other.
const ClientID = "chronik-bench"

// Offsets of a batch's checksum and of the first byte that it covers.
const (
	crcAt   = 17
	crcFrom = 21
)

// Produce configures requests with one batch of one record each.
type Produce struct {
	Version     int16 // MinProduce to MaxProduce
	Topic       string
	Acks        int16 // 0, 1 or -1
	Timeout     time.Duration
	Compression string // none, gzip, snappy, lz4 or zstd
	ClientID    string // of the requests; empty: ClientID
	Value       []byte // of the records; Add may replace it with one of the same size
}

// Requests builds Produce requests that are sent in one write. They are built once and patched in
// place; only a compressed value that changes is built again. One goroutine uses it.
type Requests struct {
	o           Produce
	compression record.Compression
	// frames holds slots requests of size bytes each; n of them are added.
	frames []byte
	size   int
	n      int
	// Offsets in a frame of the patched fields; correlation is at 8.
	partitionAt, batchAt, valueAt int
	// built holds requests that could not be patched; fresh is the last of them.
	built, fresh []byte
}

const correlationAt = 8

// NewRequests prepares up to slots requests.
func NewRequests(o Produce, slots int) (*Requests, error) {
	name := o.Compression
	if name == "none" || name == "" {
		name = "uncompressed"
	}
	compression, err := record.ParseCompression(name, record.DefaultLevels())
	if err != nil {
		return nil, fmt.Errorf("build a produce request: %w", err)
	}
	r := &Requests{o: o, compression: compression}
	frame, batch, err := r.build(nil, 0, 0, o.Value)
	if err != nil {
		return nil, err
	}
	// After the batch come the empty tags of partition, topic and request; before it come its
	// length and the partition.
	r.size = len(frame)
	r.batchAt = len(frame) - 3 - batch
	r.partitionAt = r.batchAt - uvarintSize(uint64(batch+1)) - 4
	// An uncompressed record ends with its value and the number of its headers.
	r.valueAt = len(frame) - 4 - len(o.Value)
	for range slots {
		r.frames = append(r.frames, frame...)
	}
	return r, nil
}

// build encodes a request into the memory of dst, which it overwrites, and returns the size of its
// batch.
func (r *Requests) build(dst []byte, correlation, partition int32, value []byte) ([]byte, int, error) {
	b := record.NewBuilder(record.BatchOptions{Compression: r.compression})
	b.Append(time.Now().UnixMilli(), nil, value, nil)
	batch, err := b.Build()
	if err != nil {
		return dst, 0, fmt.Errorf("build a batch for %s-%d: %w", r.o.Topic, partition, err)
	}
	req := kmsg.NewProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = r.o.Version, r.o.Acks, int32(r.o.Timeout.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic = r.o.Topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return formatter(r.o.ClientID).AppendRequest(dst[:0], &req, correlation), len(batch), nil
}

// formatter returns what encodes requests with a client id; empty: ClientID.
func formatter(id string) *kmsg.RequestFormatter {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(cmp.Or(id, ClientID)))
}

// Reset removes the added requests.
func (r *Requests) Reset() { r.n, r.built = 0, r.built[:0] }

// Add adds a request for a partition and returns its size on the wire. A value other than nil
// replaces that of Produce and must have the same length. At most as many requests as the slots of
// NewRequests may be added before a Reset.
func (r *Requests) Add(correlation, partition int32, value []byte) (int, error) {
	if value != nil && r.o.Compression != "none" && r.o.Compression != "" {
		var err error
		if r.fresh, _, err = r.build(r.fresh, correlation, partition, value); err != nil {
			return 0, err
		}
		r.built = append(r.built, r.fresh...)
		return len(r.fresh), nil
	}
	f := r.frames[r.n*r.size : (r.n+1)*r.size]
	r.n++
	binary.BigEndian.PutUint32(f[correlationAt:], uint32(correlation))
	binary.BigEndian.PutUint32(f[r.partitionAt:], uint32(partition))
	if value != nil {
		copy(f[r.valueAt:r.valueAt+len(r.o.Value)], value)
		batch := f[r.batchAt : len(f)-3]
		binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[crcFrom:], castagnoli()))
	}
	return r.size, nil
}

// Bytes returns the added requests for one write; it is valid until the next Reset.
func (r *Requests) Bytes() []byte {
	if len(r.built) > 0 {
		return r.built
	}
	return r.frames[:r.n*r.size]
}

// castagnoli returns the table of CRC-32C, which package crc32 caches.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
