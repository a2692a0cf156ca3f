package records

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// NewProduce returns the command produce.
func NewProduce(a *app.App) *cobra.Command {
	var o produceOptions
	c := &cobra.Command{
		Use: "produce TOPIC", Short: "Write each line of standard input or a file as a record",
		Long: "produce writes each line as a record, in order. It exits with 0 if all of them are acknowledged. With -k the part before\n" +
			"the first separator is the record's key. With --input json a line is a record as consume -o json prints it: the record\n" +
			"keeps its timestamp and, with --same-partition, its partition. " +
			"With --transactional-id, readers of committed records see all records or none. An error or an interrupt aborts the open\n" +
			"transaction. A producer that already uses the id is fenced.",
		Example: "  printf 'one\\ntwo\\n' | chronikctl produce hello\n  chronikctl produce orders --file orders.txt --key-separator : --compression zstd\n" +
			"  chronikctl consume orders -o json | chronikctl produce copy --input json\n" +
			"  chronikctl produce orders --file orders.txt --transactional-id import --transaction-records 1000",
		Args: app.Args(1, 1, "one topic (the records come from standard input or --file)"), ValidArgsFunction: a.Topics(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("transactional-id") && o.transactionalID == "" {
				return app.Usage("--transactional-id is empty; is a variable not set?")
			}
			o.chosen = cmd.Flags().Changed("input")
			return runProduce(cmd, a, &o, names[0])
		},
	}
	o.flags(c)
	const input = "each line of standard input is a record: echo hello | chronikctl produce TOPIC"
	cli.Instead(c, map[string]string{"--value": input, "--message": input, "-m": input})
	return c
}

func runProduce(cmd *cobra.Command, a *app.App, o *produceOptions, topic string) error {
	in, size, err := o.open(a.In)
	if err != nil {
		return err
	}
	defer in.Close()
	said, way := newLastErrors(), &openPartitioner{}
	cl, err := a.Client(cmd.Context(), append([]kgo.Opt{kgo.WithLogger(said), kgo.RecordPartitioner(way)}, o.client(topic)...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var partitions int
	if way.closed, partitions, err = checkTopic(cmd.Context(), a, cl, topic); err != nil {
		return err
	}
	if n := len(way.closed); n > 0 && n < partitions && o.partition < 0 && !o.samePartition {
		a.Note("note: %s cannot be written, so records without a key go to the others; chronikctl cluster health shows the cause", way)
	}
	bar := output.NewBar(a.Err, o.file != "" && cli.IsTerminal(a.Err), topic, size)
	w := &writer{client: cl, topic: topic, o: o, bar: bar, lastErrors: said, timeout: max(a.Settings.Timeout(), time.Second),
		broken: make(chan struct{})}
	w.txn = transaction{client: cl, id: o.transactionalID, size: o.perTransaction, wait: w.timeout}
	n, err := w.lines(cmd.Context(), in)
	bar.End()
	if o.transactionalID != "" {
		a.Note("%s", w.txn.summary(topic))
		return err
	}
	a.Note("%s written to %s", text.Count(n, "record"), topic)
	return err
}

// checkTopic returns the partitions of the topic that accept no records, and how many it has. If
// the topic does not exist, its name may be mistyped: a person at a terminal must confirm that
// produce creates it. Without a terminal checkTopic only prints a note.
func checkTopic(ctx context.Context, a *app.App, cl *kgo.Client, topic string) (closed []int32, all int, err error) {
	req := kmsg.NewPtrMetadataRequest() // the client's own metadata request would create the topic
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, 0, app.Refused("look up topic "+topic, err, "")
	}
	if len(resp.Topics) != 1 {
		return nil, 0, nil
	}
	// The first record also gets any other error, with more detail.
	if resp.Topics[0].ErrorCode == kerr.UnknownTopicOrPartition.Code {
		missing := app.UnknownTopic(ctx, kadm.NewClient(cl), topic)
		if cli.IsTerminal(a.In) { // a script cannot answer, and may rely on automatic creation
			return nil, 0, a.Confirm("create topic "+topic, strings.ToUpper(missing[:1])+missing[1:]+".", nil)
		}
		a.Note("note: %s; the first record creates it if the broker allows that (auto.create.topics.enable)", missing)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Leader < 0 || slices.Contains(p.OfflineReplicas, p.Leader) {
			closed = append(closed, p.Partition)
		}
	}
	slices.Sort(closed)
	return closed, len(resp.Topics[0].Partitions), nil
}

// open returns the input and its size, or 0 if the size is unknown.
func (o *produceOptions) open(stdin io.Reader) (io.ReadCloser, int64, error) {
	if o.file == "" || o.file == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	f, err := os.Open(o.file)
	if err != nil {
		return nil, 0, app.Usage("--file: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", o.file)
	}
	if err != nil {
		_ = f.Close() // opened for reading only
		return nil, 0, app.Usage("--file: %w", err)
	}
	return f, info.Size(), nil
}
