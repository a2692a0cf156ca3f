package records

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

// maxLine bounds one line of the input, in bytes.
const maxLine = 64 << 20

// produceOptions are the flags of produce.
type produceOptions struct {
	file        string
	input       string
	separator   string
	partition   int32
	keepPlace   bool
	acks        string
	compression string
	headers     []string
	batchBytes  size
	rate        float64
	emptyNull   bool
	tombstone   bool
	timestamp   string

	at     time.Time          // of timestamp; zero for the time of writing
	common []kgo.RecordHeader // of every record
	chosen bool               // --input was given
}

func (o *produceOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.file, "file", "", "read this file instead of standard input")
	f.StringVar(&o.input, "input", "lines", "what a line is: lines is a value (and a key, with -k), json a record as consume -o json prints it")
	f.StringVarP(&o.separator, "key-separator", "k", "", "each line is KEY, this, VALUE; \\t is a tab, \\xHH a byte")
	f.BoolVar(&o.tombstone, "tombstone", false, "each line is a key, and its value null, which deletes the key in a compacted topic")
	f.StringVar(&o.timestamp, "timestamp", "", "time of every record: 2006-01-02T15:04:05Z, @MILLISECONDS since 1970, or 5m for that "+
		"long ago; without it the time of writing")
	f.BoolVar(&o.emptyNull, "empty-is-null", false, "an empty value is null, which deletes the key in a compacted topic")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "header name=value for every record, with escapes as in -k; may be repeated")
	f.Int32VarP(&o.partition, "partition", "p", -1, "partition to write to; -1 goes by key, or where a batch has room")
	f.BoolVar(&o.keepPlace, "same-partition", false, "with --input json, write each record to the partition that it names; without it the key decides")
	f.StringVar(&o.acks, "acks", "all", "which replicas must have a record before it is acknowledged: all, 1 (the leader) or 0 (none)")
	f.StringVar(&o.compression, "compression", "none", strings.Join(codecs(), ", "))
	o.batchBytes = 1_000_000
	f.Var(&o.batchBytes, "max-batch-bytes", "largest batch to send; a longer line needs more, here and as the topic's max.message.bytes")
	f.Float64Var(&o.rate, "rate", 0, "records per second; 0 is as fast as it goes")
	app.CompleteFlag(c, "acks", app.OneOf("all", "1", "0"))
	app.CompleteFlag(c, "compression", app.OneOf(codecs()...))
	app.CompleteFlag(c, "input", app.OneOf("lines", "json"))
}

// size is a flag in bytes, which may be written with a unit.
type size int32

func (s *size) String() string { return strconv.Itoa(int(*s)) }

func (s *size) Set(text string) error {
	n, err := parse.Size(text)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%s is more than a batch may have", text)
	}
	if err == nil {
		*s = size(n)
	}
	return err
}

// Type is what --help shows behind the flag.
func (*size) Type() string { return "bytes" }

func codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// check holds the flags against each other before anything is sent.
func (o *produceOptions) check() error {
	switch {
	case o.batchBytes < 1<<10 || o.batchBytes > maxLine:
		return app.Usage("--max-batch-bytes %d is not between %d and %d", o.batchBytes, 1<<10, maxLine)
	case o.partition < -1:
		return app.Usage("--partition %d: partitions begin at 0; -1 goes by key", o.partition)
	case o.keepPlace && (o.input != "json" || o.partition >= 0):
		return app.Usage("--same-partition is for --input json without --partition: it takes the partition of each record")
	case !(o.rate >= 0 && o.rate <= 1e9):
		return app.Usage("--rate %v is not between 0 and 1e9 records per second", o.rate)
	case !slices.Contains([]string{"all", "-1", "1", "0"}, o.acks):
		return app.Usage("--acks %q is none of all, 1, 0", o.acks)
	case !slices.Contains(codecs(), o.compression):
		return app.Usage("--compression %q is none of %s", o.compression, strings.Join(codecs(), ", "))
	case o.input != "lines" && o.input != "json":
		return app.Usage("--input %q is neither lines nor json", o.input)
	case o.tombstone && (o.input != "lines" || o.separator != "" || o.emptyNull):
		return app.Usage("--tombstone: a line is a key and nothing else; leave --input json, --key-separator and --empty-is-null out")
	case o.input == "json" && o.timestamp != "":
		return app.Usage("--timestamp is for --input lines: in JSON the timestamp has its own field")
	case o.input == "json" && o.separator != "":
		return app.Usage("--key-separator is for --input lines: in JSON the key has its own field")
	}
	var err error
	if o.separator, err = parse.Escapes(o.separator); err != nil {
		return app.Usage("--key-separator %w", err)
	}
	if o.timestamp != "" {
		if o.at, err = parse.Time(o.timestamp, time.Now()); err != nil {
			return app.Usage("--timestamp %w", err)
		}
	}
	for _, h := range o.headers {
		name, value, err := parse.KeyValue(h)
		if err == nil {
			value, err = parse.Escapes(value)
		}
		if err != nil {
			return app.Usage("--header %w", err)
		}
		o.common = append(o.common, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return nil
}

// metadataAge is how soon the client asks again for metadata. The first answer about a topic
// that the broker creates is that there is none; by the library's default a person would wait
// a quarter of a second for the next.
const metadataAge = 30 * time.Millisecond

// client turns the flags into the client's options.
func (o *produceOptions) client(topic string) []kgo.Opt {
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[o.compression]
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(int32(o.batchBytes)),
		kgo.ProducerBatchCompression(codec), kgo.MetadataMinAge(metadataAge)}
	switch o.acks {
	default:
		// A record of which nobody knows whether it was written is given up when its
		// time is over: the run ends there, so nothing after it can be out of order,
		// and who reads the error knows that this line may come twice.
		opts = append(opts, kgo.AllowIdempotentProduceCancellation())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	if o.input == "json" || !o.at.IsZero() {
		// The client would measure by the record's time, and records of yesterday
		// would have timed out before they are sent; the writer measures by its own.
		opts = append(opts, kgo.RecordDeliveryTimeout(0))
	}
	if o.partition >= 0 || o.keepPlace {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts
}
