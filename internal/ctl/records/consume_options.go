package records

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

const formatHelp = "In --format, %t is the topic, %p the partition, %o the offset, %k the key, %v the value, %d the timestamp in milliseconds,\n" +
	"%d{go[2006-01-02T15:04:05Z07:00]} as a date, %e the leader epoch, %H the number of headers, %h{%k=%v } each header, %K and\n" +
	"%V the lengths of key and value, %k{hex}, %v{base64} other forms of them; \\n and \\t are a line feed and a tab, %% is a percent\n" +
	"sign. A line feed is printed only where the format has one."

// The protocols of groups.
const (
	classic = "classic"
	nextGen = "consumer" // KIP-848
)

// consumeOptions are the flags of consume.
type consumeOptions struct {
	from, until string
	partitions  string
	count       int64
	follow      bool
	separator   string
	headers     bool
	offsets     bool
	committed   bool
	format      string
	group       string
	protocol    string
	skipDamaged bool

	begin, end parse.Position // of from and until
	some       []int32        // of partitions
	print      printer
}

func (o *consumeOptions) flags(c *cobra.Command, a *app.App) {
	f := c.Flags()
	f.StringVar(&o.from, "from", "earliest", "where to start: earliest, latest, an offset, -N for the last N, a time, or 5m for that long ago; for a group: without a commit")
	f.StringVar(&o.until, "until", "", "where to stop, without it: latest, an offset, -N, or a time")
	f.StringVarP(&o.partitions, "partition", "p", "", "read these partitions only: 3 or 0,2,5-7")
	f.Int64VarP(&o.count, "count", "n", 0, "stop after this many records; 0 is no limit")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more at the end")
	f.StringVarP(&o.separator, "key-separator", "k", "", "print KEY, this, VALUE; \\t is a tab, \\xHH a byte")
	f.BoolVar(&o.headers, "headers", false, "print each header as NAME=VALUE and a tab before the record")
	f.BoolVar(&o.offsets, "offsets", false, "print PARTITION:OFFSET and a tab before the record")
	f.StringVar(&o.format, "format", "", "how a record is printed, see above; not with -o json or yaml")
	f.StringVarP(&o.group, "group", "g", "", "read as a member of this group, and commit what was printed")
	f.BoolVar(&o.committed, "read-committed", false, "leave out records of open and aborted transactions")
	f.BoolVar(&o.skipDamaged, "skip-damaged", false, "skip damaged records and name their offsets; not with --group")
	f.StringVar(&o.protocol, "group-protocol", classic, "how to join: classic or consumer (KIP-848)")
	app.CompleteFlag(c, "group", a.Groups(0))
	app.CompleteFlag(c, "group-protocol", app.OneOf(classic, nextGen))
	cli.Instead(c, map[string]string{
		"--offset":         "--from says where to start: earliest, latest, an offset, or a time",
		"--from-beginning": "that is the default, --from earliest",
		"--tail":           "--from -N prints the last N records",
		"--last":           "--from -N prints the last N records",
		"--num":            "--count ends it after so many records",
		"--max-messages":   "--count ends it after so many records",
		"--limit":          "--count ends it after so many records",
		"--regex":          "consume reads one topic",
	})
	app.CompleteFlag(c, "from", app.OneOf("earliest", "latest"))
}

// check reads what the flags say, before anything is sent.
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
	switch {
	case o.count < 0:
		return app.Usage("--count %d is negative", o.count)
	case o.protocol != classic && o.protocol != nextGen:
		return app.Usage("--group-protocol %q is none of %s, %s", o.protocol, classic, nextGen)
	case o.protocol != classic && o.group == "":
		return app.Usage("--group-protocol is of a group's member: give --group, too")
	case o.group != "" && o.some != nil:
		return app.Usage("--partition and --group: a group gives its members their partitions; leave one out")
	case o.skipDamaged && o.group != "":
		return app.Usage("--skip-damaged and --group: chronikctl group reset moves a group behind the damage; leave one out")
	case o.group != "" && o.until != "":
		return app.Usage("--until and --group: a group goes on where it stopped; leave one out, or use --count")
	case o.format != "" && !f.ForPeople():
		return app.Usage("--format and -o %s: choose one", f)
	case !f.ForPeople() && (o.separator != "" || o.headers || o.offsets):
		return app.Usage("-o %s shows keys, headers and offsets anyway: leave --key-separator, --headers and --offsets out", f)
	case o.format != "" && (o.separator != "" || o.headers || o.offsets):
		return app.Usage("--format says all of it: leave --key-separator, --headers and --offsets out")
	}
	o.print, err = newPrinter(o, f)
	return err
}

// client is what the client needs besides the connection.
func (o *consumeOptions) client(topic string, r *reader) []kgo.Opt {
	opts := []kgo.Opt{kgo.WithHooks(&r.contact), kgo.KeepControlRecords(), kgo.KeepRetryableFetchErrors(), kgo.FetchMaxWait(500 * time.Millisecond)}
	if o.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if o.group == "" {
		return opts
	}
	if o.protocol == nextGen {
		// The client's own balancer only says which assignor the broker is to use.
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeStartOffset(startOf(o.begin)),
		kgo.ConsumeResetOffset(startOf(o.begin)), kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.revoked))
}

// startOf is where a group starts that has committed nothing.
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

// within refuses an offset that a partition does not have.
func within(topic string, p int32, what string, at, start, end int64) error {
	if at >= start && at <= end {
		return nil
	}
	return fmt.Errorf("%s partition %d: %s: offset %d is not between %d and %d; chronikctl topic describe shows which offsets there are", topic, p, what, at, start, end)
}
