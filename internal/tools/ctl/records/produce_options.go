package records

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// maxLine bounds an input line, in bytes.
const maxLine = 64 << 20

// produceOptions holds the flags of produce.
type produceOptions struct {
	file          string
	input         string
	separator     string
	partition     int32
	samePartition bool
	acks          string
	compression   string
	headers       []string
	batchBytes    int32
	rate          float64
	emptyNull     bool
	tombstone     bool
	timestamp     string

	transactionalID    string
	perTransaction     int // records; 0: all
	transactionTimeout time.Duration

	at     time.Time          // parsed timestamp; zero for the time of writing
	common []kgo.RecordHeader // headers of every record
	chosen bool               // --input was given
}

func (o *produceOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.file, "file", "", "read this file instead of standard input")
	f.StringVar(&o.input, "input", "lines",
		"lines, or json: records as consume -o json prints them")
	f.StringVarP(&o.separator, "key-separator", "k", "", "separator of key and value in a line: \\t is a tab, \\xHH a byte")
	f.BoolVar(&o.tombstone, "tombstone", false, "each line is a key; a null value deletes it if compacted")
	f.StringVar(&o.timestamp, "timestamp", "", "time of every record: 2006-01-02T15:04:05Z, @MILLISECONDS since 1970, or 5m for that "+
		"long ago")
	f.BoolVar(&o.emptyNull, "empty-is-null", false, "write null for an empty value, which deletes a compacted key")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "header name=value of every record, escapes as -k; repeatable")
	cli.AtLeast(int32(0)).Or(-1, "a record's key determines it, and records without a key are spread in batches").
		Flag(f, &o.partition, "partition", "p", -1, "partition to write to")
	f.BoolVar(&o.samePartition, "same-partition", false, "with --input json, write to the partition that a record names")
	f.StringVar(&o.acks, "acks", "all", "replicas to wait for: all, 1 (leader) or 0 (none)")
	f.StringVar(&o.compression, "compression", "none", strings.Join(codecs(), ", "))
	parse.Sizes(cli.Between(1<<10, int32(maxLine))).Flag(f, &o.batchBytes, "max-batch-bytes", "", 1_000_000,
		"largest batch to send; a longer line also needs a larger max.message.bytes of the topic")
	cli.Between(0, 1e9).Or(0, "no limit").Flag(f, &o.rate, "rate", "", 0, "records per second")
	f.StringVar(&o.transactionalID, "transactional-id", "", "write in a transaction of this `ID`")
	cli.AtLeast(1).Or(0, "all").Flag(f, &o.perTransaction, "transaction-records", "", 0, "`N` records in each transaction")
	cli.Between(time.Millisecond, math.MaxInt32*time.Millisecond).Flag(f, &o.transactionTimeout, "transaction-timeout", "", time.Minute,
		"`TIME` after which the broker aborts a transaction")
	app.CompleteFlag(c, "acks", app.OneOf("all", "1", "0"))
	app.CompleteFlag(c, "compression", app.OneOf(codecs()...))
	app.CompleteFlag(c, "input", app.OneOf("lines", "json"))
}

func codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// check validates the flags and parses them. It sends nothing.
func (o *produceOptions) check() error {
	switch {
	case o.samePartition && (o.input != "json" || o.partition >= 0):
		return app.Usage("--same-partition needs --input json and excludes --partition: each record names its partition")
	case !slices.Contains([]string{"all", "-1", "1", "0"}, o.acks):
		return app.Usage("--acks %q is none of all, 1, 0", o.acks)
	case !slices.Contains(codecs(), o.compression):
		return app.Usage("--compression %q is none of %s", o.compression, strings.Join(codecs(), ", "))
	case o.input != "lines" && o.input != "json":
		return app.Usage("--input %q is neither lines nor json", o.input)
	case o.tombstone && (o.input != "lines" || o.separator != "" || o.emptyNull):
		return app.Usage("--tombstone: each line is a key; remove --input json, --key-separator and --empty-is-null")
	case o.input == "json" && o.timestamp != "":
		return app.Usage("--timestamp needs --input lines: a JSON record has a timestamp field")
	case o.input == "json" && o.separator != "":
		return app.Usage("--key-separator needs --input lines: a JSON record has a key field")
	case o.transactionalID == "" && o.perTransaction != 0:
		return app.Usage("--transaction-records needs --transactional-id")
	case o.transactionalID != "" && (o.acks == "1" || o.acks == "0"):
		return app.Usage("--transactional-id needs --acks all: a record that is lost after its acknowledgement would be missing in a committed transaction")
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

// metadataAge is the minimum time between two metadata requests. The first answer about a topic
// that the broker is creating is that it does not exist, and by default the client would wait 250
// ms before it asks again.
const metadataAge = 30 * time.Millisecond

// creationTime is how long produce takes the answer that the topic does not exist for that of a
// broker that is still creating it.
const creationTime = 5 * time.Second

// client returns the client options that the flags require.
func (o *produceOptions) client(topic string) []kgo.Opt {
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[o.compression]
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(o.batchBytes),
		kgo.ProducerBatchCompression(codec), kgo.MetadataMinAge(metadataAge),
		kgo.UnknownTopicRetries(int(creationTime / metadataAge))}
	switch {
	case o.transactionalID != "":
		// The client gives up on records of a transaction too, because it ends the transaction.
		opts = append(opts, kgo.TransactionalID(o.transactionalID), kgo.TransactionTimeout(o.transactionTimeout))
	case o.acks == "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case o.acks == "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		// A record that may or may not be written is given up after --timeout. The run ends there,
		// so no later record can overtake it, and the error says that the line may be written
		// twice.
		opts = append(opts, kgo.AllowIdempotentProduceCancellation())
	}
	if o.input == "json" || !o.at.IsZero() {
		// The client would count from the record's own timestamp, and old records would time out
		// before they are sent. The writer has its own timeout.
		opts = append(opts, kgo.RecordDeliveryTimeout(0))
	}
	if o.partition >= 0 || o.samePartition {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts
}
