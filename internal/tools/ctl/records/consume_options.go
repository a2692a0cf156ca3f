package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

const formatHelp = "In --format, %t is the topic, %p the partition, %o the offset, %k the key, %v the value. %d is the timestamp in ms,\n" +
	"%d{go[2006-01-02T15:04:05Z07:00]} a date, %e the leader epoch. %H is the number of headers, %h{%k=%v } prints each. %K and\n" +
	"%V are the lengths of key and value, %k{hex} and %v{base64} the encoded key and value. \\n is a line feed, \\t a tab, %% a\n" +
	"percent sign. No line feed is added."

// The group protocols.
const (
	classic = "classic"
	nextGen = "consumer" // KIP-848
)

// The isolation levels.
const (
	readUncommitted = "read-uncommitted"
	readCommitted   = "read-committed"
)

// consumeOptions holds the flags of consume.
type consumeOptions struct {
	from, until string
	partitions  string
	count       int64
	follow      bool
	separator   string
	headers     bool
	offsets     bool
	isolation   string
	format      string
	group       string
	protocol    string
	skipDamaged bool
	regex       bool
	several     bool // print the topic of each record

	begin, end parse.Position // parsed from and until
	some       []int32        // parsed partitions
	print      printer
}

func (o *consumeOptions) flags(c *cobra.Command, a *app.App) {
	f := c.Flags()
	f.StringVar(&o.from, "from", "earliest", "start: earliest, latest, an offset, -N for the last N, a time, 5m for that long ago")
	f.StringVar(&o.until, "until", "", "stop before this position: latest, an offset, -N, or a time")
	f.StringVarP(&o.partitions, "partition", "p", "", "read only these partitions: 3 or 0,2,5-7")
	cli.AtLeast(int64(1)).Or(0, "no limit").Flag(f, &o.count, "count", "n", 0, "stop after this number of records")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for new records at the end")
	f.StringVarP(&o.separator, "key-separator", "k", "", "print the key, then this separator: \\t is a tab, \\xHH a byte")
	f.BoolVar(&o.headers, "headers", false, "print each header as NAME=VALUE and a tab before the record")
	f.BoolVar(&o.offsets, "offsets", false, "print PARTITION:OFFSET and a tab before the record")
	f.StringVar(&o.format, "format", "", "how to print a record, see above; not with -o json or yaml")
	f.StringVarP(&o.group, "group", "g", "", "read as a member of this group and commit")
	f.StringVar(&o.isolation, "isolation", readUncommitted, readUncommitted+" or "+readCommitted)
	f.BoolVar(&o.skipDamaged, "skip-damaged", false, "skip damaged records and report their offsets; not with --group")
	f.StringVar(&o.protocol, "group-protocol", classic, "classic or consumer (KIP-848)")
	f.BoolVarP(&o.regex, "regex", "r", false, app.RegexHelp)
	app.CompleteFlag(c, "group", a.Groups(0))
	app.CompleteFlag(c, "isolation", app.OneOf(readUncommitted, readCommitted))
	app.CompleteFlag(c, "group-protocol", app.OneOf(classic, nextGen))
	cli.Instead(c, map[string]string{
		"--offset":         "--from sets the first record: earliest, latest, an offset, or a time",
		"--from-beginning": "that is the default, --from earliest",
		"--read-committed": "--isolation read-committed leaves out records of open and aborted transactions",
		"--tail":           "--from -N prints the last N records",
		"--last":           "--from -N prints the last N records",
		"--num":            "--count stops after that many records",
		"-c":               "--count stops after that many records",
		"--max-messages":   "--count stops after that many records",
		"--limit":          "--count stops after that many records",
	})
	app.CompleteFlag(c, "from", app.OneOf("earliest", "latest"))
}

// committed reports whether only records of committed transactions are read.
func (o *consumeOptions) committed() bool { return o.isolation == readCommitted }

// check parses and validates the flags. It sends nothing.
func (o *consumeOptions) check(f output.Format) error {
	var err error
	now := time.Now()
	if o.begin, err = parse.ReadPosition(o.from, now); err != nil {
		return app.Usage("--from %w", err)
	}
	if o.until != "" {
		if o.end, err = parse.ReadPosition(o.until, now); err != nil {
			return app.Usage("--until %w", err)
		}
	}
	if o.some, err = parse.Partitions(o.partitions); err != nil {
		return app.Usage("--partition %w", err)
	}
	if o.separator, err = parse.Escapes(o.separator); err != nil {
		return app.Usage("--key-separator %w", err)
	}
	o.isolation = strings.ReplaceAll(o.isolation, "_", "-") // as Kafka spells it
	switch {
	case o.isolation != readUncommitted && o.isolation != readCommitted:
		return app.Usage("--isolation %q is neither %s nor %s", o.isolation, readUncommitted, readCommitted)
	case o.protocol != classic && o.protocol != nextGen:
		return app.Usage("--group-protocol %q is none of %s, %s", o.protocol, classic, nextGen)
	case o.protocol != classic && o.group == "":
		return app.Usage("--group-protocol needs --group")
	case o.group != "" && o.some != nil:
		return app.Usage("--partition and --group exclude each other: a group assigns the partitions to its members")
	case o.skipDamaged && o.group != "":
		return app.Usage("--skip-damaged and --group exclude each other: move the group past the damage with chronikctl group reset")
	case o.group != "" && o.until != "":
		return app.Usage("--until and --group exclude each other: a group continues where it stopped; use --count")
	case f == output.Name || strings.HasPrefix(string(f), output.Path):
		return app.Usage("-o %s is not for records: --format chooses what is printed of each", f)
	case o.format != "" && !f.ForPeople():
		return app.Usage("--format and -o %s exclude each other", f)
	case !f.ForPeople() && (o.separator != "" || o.headers || o.offsets):
		return app.Usage("-o %s always includes keys, headers and offsets: remove --key-separator, --headers and --offsets", f)
	case o.format != "" && (o.separator != "" || o.headers || o.offsets):
		return app.Usage("--format defines the whole line: remove --key-separator, --headers and --offsets")
	}
	o.print, err = newPrinter(o, f)
	return err
}

// client returns the client options that the flags require.
func (o *consumeOptions) client(r *reader) []kgo.Opt {
	opts := []kgo.Opt{kgo.WithHooks(&r.contact), kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(500 * time.Millisecond)}
	if o.committed() {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if o.group == "" {
		return opts
	}
	if o.protocol == nextGen {
		// The balancer only selects the assignor that the broker uses.
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(r.topics...), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeStartOffset(startOf(o.begin)),
		kgo.ConsumeResetOffset(startOf(o.begin)), kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.revoked),
		kgo.OnPartitionsLost(r.revoked))
}

// startOf returns where a group without a commit starts.
func startOf(p parse.Position) kgo.Offset {
	switch p.Kind {
	case parse.Latest:
		return kgo.NewOffset().AtEnd()
	case parse.At:
		return kgo.NewOffset().At(p.Offset)
	case parse.BeforeN:
		return kgo.NewOffset().AtEnd().Relative(-p.Offset)
	case parse.FromTime:
		return kgo.NewOffset().AfterMilli(p.Time.UnixMilli())
	}
	return kgo.NewOffset().AtStart()
}

// within returns an error if the partition does not have the offset.
func within(p partition, what string, at, start, end int64) error {
	if at >= start && at <= end {
		return nil
	}
	return fmt.Errorf("%v: %s: offset %d is not between %d and %d; chronikctl topic describe shows which offsets there are", p, what, at,
		start, end)
}
