package ctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxLine bounds one line of standard input, in bytes.
const maxLine = 64 << 20

// produceOptions are the flags of produce.
type produceOptions struct {
	separator   string
	partition   int32
	acks        string
	compression string
	headers     []string
	batchBytes  int32
}

func (a *app) produce() *cobra.Command {
	var o produceOptions
	c := &cobra.Command{
		Use: "produce TOPIC", Short: "Write each line of standard input as a record",
		Long: "produce writes each line of standard input as one record, in order, and ends with 0 when all of them are acknowledged.\n" +
			"With -k the part before the first separator is the record's key.",
		Args: args(1, 1, "one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			opts, headers, err := o.options(names[0])
			if err != nil {
				return err
			}
			cl, err := a.client(cmd.Context(), opts...)
			if err != nil {
				return err
			}
			defer cl.Close()
			w := &writer{client: cl, o: o, headers: headers}
			n, err := w.lines(cmd.Context(), a.In)
			fmt.Fprintf(a.Err, "%d records written to %s\n", n, names[0])
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&o.separator, "key-separator", "k", "", "each line is KEY, this, VALUE")
	f.Int32VarP(&o.partition, "partition", "p", -1, "partition to write to; -1 goes by key, or where a batch has room")
	f.StringVar(&o.acks, "acks", "all", "who must have a record before it counts: all, 1 (the leader) or 0 (nobody)")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.Int32Var(&o.batchBytes, "max-batch-bytes", 1_000_000, "largest batch to send; a longer line needs more, here and as the topic's max.message.bytes")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "header name=value for every record; may be repeated")
	return c
}

// options turns the flags into the client's.
func (o *produceOptions) options(topic string) ([]kgo.Opt, []kgo.RecordHeader, error) {
	if o.batchBytes < 1<<10 || o.batchBytes > maxLine {
		return nil, nil, usage("--max-batch-bytes %d is not between %d and %d", o.batchBytes, 1<<10, maxLine)
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(o.batchBytes)}
	switch o.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, nil, usage("--acks %q is none of all, 1, 0", o.acks)
	}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[o.compression]
	if !ok {
		return nil, nil, usage("--compression %q is none of none, gzip, snappy, lz4, zstd", o.compression)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	var headers []kgo.RecordHeader
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, nil, usage("--header %q is not name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return opts, headers, nil
}

// writer produces lines. The client calls back from its own goroutine, hence
// the lock.
type writer struct {
	client  *kgo.Client
	o       produceOptions
	headers []kgo.RecordHeader

	mu    sync.Mutex
	acked int64
	err   error // the first failure
}

// lines writes until the input ends or a record fails, waits for every answer,
// and returns how many records were acknowledged.
func (w *writer) lines(ctx context.Context, in io.Reader) (int64, error) {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	scan.Split(wholeLines)
	for line := 1; w.failed() == nil && scan.Scan(); line++ {
		rec := &kgo.Record{Headers: w.headers, Partition: w.o.partition}
		value := bytes.Clone(scan.Bytes())
		if w.o.separator != "" {
			key, rest, ok := bytes.Cut(value, []byte(w.o.separator))
			if !ok {
				w.fail(fmt.Errorf("line %d has no key separator %q; nothing of it was written", line, w.o.separator))
				break
			}
			rec.Key, value = key, rest
		}
		rec.Value = value
		w.client.Produce(ctx, rec, func(_ *kgo.Record, err error) { w.done(line, err) })
	}
	if err := scan.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		w.fail(fmt.Errorf("standard input: %w", err))
	}
	if err := w.client.Flush(ctx); err != nil {
		w.fail(fmt.Errorf("waiting for acknowledgements: %w", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.err
}

func (w *writer) done(line int, err error) {
	if err != nil {
		w.fail(fmt.Errorf("line %d: %w", line, err))
		return
	}
	w.mu.Lock()
	w.acked++
	w.mu.Unlock()
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// wholeLines is bufio.ScanLines that keeps a carriage return: it is data.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
