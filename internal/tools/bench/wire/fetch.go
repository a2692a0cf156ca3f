package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/record"
)

// FetchVersion is the version of Fetch in a FetchRequest: the last that names topics (KIP-516
// changes 13 to ids).
const FetchVersion = 12

// FetchRequest is a prebuilt Fetch of one partition without a session (KIP-227).
type FetchRequest struct{ frame []byte }

// The request ends with offset, last fetched epoch, log start, the partition's bytes, and five
// bytes: tags of partition and topic, no forgotten topics, an empty rack, tags.
const (
	fetchTail      = 5
	fetchOffsetAt  = fetchTail + 4 + 8 + 4 + 8
	fetchPartition = fetchOffsetAt + 4 + 4
)

// NewFetchRequest returns a request for up to maxBytes (more if the first batch is larger) that
// waits up to waitMillis for one byte. Without a client id it has ClientID.
func NewFetchRequest(client, topic string, maxBytes, waitMillis int32) *FetchRequest {
	req := kmsg.NewFetchRequest()
	req.Version = FetchVersion
	req.ReplicaID, req.SessionID, req.SessionEpoch = -1, 0, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = waitMillis, 1, maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = -1, -1, -1, maxBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return &FetchRequest{frame: formatter(client).AppendRequest(nil, &req, 0)}
}

// Bytes returns the request for that partition and offset; it is valid until the next call.
func (f *FetchRequest) Bytes(correlation, partition int32, offset int64) []byte {
	n := len(f.frame)
	binary.BigEndian.PutUint32(f.frame[correlationAt:], uint32(correlation))
	binary.BigEndian.PutUint32(f.frame[n-fetchPartition:], uint32(partition))
	binary.BigEndian.PutUint64(f.frame[n-fetchOffsetAt:], uint64(offset))
	return f.frame
}

// Fetched is the response to a FetchRequest.
type Fetched struct {
	Code          int16 // Kafka's error code, of the request or the partition
	HighWatermark int64
	LogStart      int64
	Batches       []byte // valid as long as the frame
}

// ReadFetched parses a response to a Fetch request of version 12. It returns ErrAnswer or ErrOther
// if it is not one.
func ReadFetched(frame []byte, correlation int32, topic string, partition int32) (Fetched, error) {
	r := reader{bytesio.NewReader(frame)}
	if err := r.header(correlation); err != nil {
		return Fetched{}, err
	}
	r.int32() // throttle
	code := r.int16()
	r.int32() // session
	if code != 0 && r.Err() == nil {
		return Fetched{Code: code}, nil
	}
	if err := r.partition(topic, partition); err != nil {
		return Fetched{}, err
	}
	f := Fetched{Code: r.int16(), HighWatermark: r.int64()}
	r.int64() // last stable offset
	f.LogStart = r.int64()
	for n := r.compact(); n > 0 && r.Err() == nil; n-- { // aborted transactions
		r.Take(16)
		r.tags()
	}
	r.int32() // preferred replica
	f.Batches = r.Take(max(r.compact(), 0))
	r.tags()
	r.tags()
	r.tags()
	if r.End() != nil {
		return Fetched{}, ErrAnswer
	}
	return f, nil
}

// Counted is the summary of the headers of fetched batches.
type Counted struct {
	Records int64 // data records at and after the requested offset
	Bytes   int64 // of complete batches
	Next    int64 // offset after the last batch
}

// Offsets in a batch of the fields that CountBatches reads.
const (
	batchLengthAt  = 8
	batchMagicAt   = 16
	batchAttrsAt   = 21
	batchDeltaAt   = 23
	batchRecordsAt = 57
	batchHeader    = 61
	batchControl   = 1 << 5
)

// CountBatches counts the records in batches fetched from offset on by their headers. The last
// batch may be cut short, as brokers do; it returns ErrAnswer for an invalid batch or a decreasing
// offset.
func CountBatches(p []byte, offset int64) (Counted, error) {
	c := Counted{Next: offset}
	for len(p) >= batchHeader {
		size := int64(int32(binary.BigEndian.Uint32(p[batchLengthAt:]))) + batchLengthAt + 4
		if size < batchHeader || p[batchMagicAt] != 2 {
			return c, ErrAnswer
		}
		if size > int64(len(p)) {
			break
		}
		base := int64(binary.BigEndian.Uint64(p))
		next := base + int64(int32(binary.BigEndian.Uint32(p[batchDeltaAt:]))) + 1
		records := int64(int32(binary.BigEndian.Uint32(p[batchRecordsAt:])))
		if next <= c.Next || records < 0 || base < 0 {
			return c, ErrAnswer
		}
		if base < c.Next { // the batch that contains the requested offset
			records = min(records, next-c.Next)
		}
		if binary.BigEndian.Uint16(p[batchAttrsAt:])&batchControl == 0 {
			c.Records += records
		}
		c.Bytes += size
		c.Next = next
		p = p[size:]
	}
	return c, nil
}

// EachValue calls fn with the value of every record from offset on in fetched batches, and returns
// the offset after the last record. A value is valid until fn returns. The last batch may be cut
// short; EachValue returns ErrAnswer for an invalid batch.
func EachValue(p []byte, offset int64, fn func(value []byte)) (next int64, err error) {
	for len(p) > 0 {
		batch, rest, err := record.Next(p)
		if errors.Is(err, record.ErrShort) {
			return offset, nil
		}
		if err == nil && batch.LastOffset() >= offset {
			from := offset
			offset = batch.LastOffset() + 1
			err = batch.Each(record.Limits{}, func(r record.Record) error {
				if r.Offset >= from {
					fn(r.Value)
				}
				return nil
			})
		}
		if err != nil {
			return offset, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		p = rest
	}
	return offset, nil
}
