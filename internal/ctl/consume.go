package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeOptions are the flags of consume.
type consumeOptions struct {
	from      string
	partition int32
	count     int64
	follow    bool
	separator string
	headers   bool
	offsets   bool
	committed bool
}

func (a *app) consume() *cobra.Command {
	var o consumeOptions
	c := &cobra.Command{
		Use: "consume TOPIC", Short: "Print records, one a line",
		Long: "consume prints what a topic holds, up to the end that it had when it was asked, and ends. With --follow it goes on until it is interrupted.\n" +
			"Records of one partition come in order.",
		Args: args(1, 1, "one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if o.count < 0 {
				return usage("--count %d is negative", o.count)
			}
			if _, err := o.start(0, 0); err != nil {
				return err
			}
			return a.read(cmd.Context(), names[0], o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "earliest", "where to start: earliest, latest or an offset")
	f.Int32VarP(&o.partition, "partition", "p", -1, "read this partition only")
	f.Int64VarP(&o.count, "count", "n", 0, "stop after this many records; 0 is no limit")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more at the end")
	f.StringVarP(&o.separator, "key-separator", "k", "", "print KEY, this, VALUE")
	f.BoolVar(&o.headers, "headers", false, "print each header as NAME=VALUE and a tab before the record")
	f.BoolVar(&o.offsets, "offsets", false, "print PARTITION:OFFSET and a tab before the record")
	f.BoolVar(&o.committed, "read-committed", false, "leave out records of open and aborted transactions")
	return c
}

// start is the offset to begin with, of a partition that holds [first, end).
func (o *consumeOptions) start(first, end int64) (int64, error) {
	switch o.from {
	case "earliest":
		return first, nil
	case "latest":
		return end, nil
	}
	n, err := strconv.ParseInt(o.from, 10, 64)
	if err != nil || n < 0 {
		return 0, usage("--from %q is none of earliest, latest, an offset", o.from)
	}
	return n, nil
}

// reader prints one topic.
type reader struct {
	consumeOptions
	client *kgo.Client
	out    *bufio.Writer
	left   map[int32]int64 // end of each partition that has not been reached
	done   int64           // records printed
}

func (a *app) read(ctx context.Context, topic string, o consumeOptions) error {
	opts := []kgo.Opt{kgo.KeepControlRecords()}
	if o.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	cl, err := a.client(ctx, opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	from, left, err := a.plan(ctx, kadm.NewClient(cl), topic, o)
	if err != nil {
		return err
	}
	r := &reader{consumeOptions: o, client: cl, out: bufio.NewWriterSize(a.Out, 64<<10), left: left}
	if len(left) == 0 && !o.follow {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	return errors.Join(r.run(ctx), r.out.Flush())
}

// plan finds where each partition starts and, unless following, where it ends.
func (a *app) plan(ctx context.Context, adm *kadm.Client, topic string, o consumeOptions) (from map[int32]kgo.Offset, left map[int32]int64, err error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: start offsets: %w", topic, err)
	}
	list := adm.ListEndOffsets
	if o.committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: end offsets: %w", topic, err)
	}
	from, left = make(map[int32]kgo.Offset), make(map[int32]int64)
	for p, first := range starts[topic] {
		end, ok := ends.Lookup(topic, p)
		if !ok || o.partition >= 0 && p != o.partition {
			continue
		}
		at, err := o.start(first.Offset, end.Offset)
		if err != nil {
			return nil, nil, err
		}
		if at < first.Offset || at > end.Offset {
			return nil, nil, fmt.Errorf("%s partition %d: offset %d is not between %d and %d", topic, p, at, first.Offset, end.Offset)
		}
		from[p] = kgo.NewOffset().At(at)
		if at < end.Offset {
			left[p] = end.Offset
		}
	}
	if len(from) == 0 {
		return nil, nil, fmt.Errorf("%s partition %d: %w", topic, o.partition, kerr.UnknownTopicOrPartition)
	}
	return from, left, nil
}

// run prints until the ends are reached, the count is full or the context ends.
func (r *reader) run(ctx context.Context) error {
	for r.follow || len(r.left) > 0 {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if full, err := r.record(it.Next()); err != nil || full {
				return err
			}
		}
		// What was fetched is shown before waiting for more.
		if err := r.out.Flush(); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return nil
}

// record prints one record and reports whether the count is full.
func (r *reader) record(rec *kgo.Record) (full bool, err error) {
	end, waiting := r.left[rec.Partition]
	if !waiting && !r.follow {
		return false, nil // arrived after this partition's end was asked for
	}
	if waiting && rec.Offset >= end-1 {
		delete(r.left, rec.Partition)
	}
	if rec.Attrs.IsControl() || !r.follow && rec.Offset >= end {
		return false, nil
	}
	if err := r.print(rec); err != nil {
		return false, fmt.Errorf("standard output: %w", err)
	}
	r.done++
	return r.count > 0 && r.done >= r.count, nil
}

func (r *reader) print(rec *kgo.Record) error {
	if r.offsets {
		fmt.Fprintf(r.out, "%d:%d\t", rec.Partition, rec.Offset)
	}
	if r.headers {
		for _, h := range rec.Headers {
			fmt.Fprintf(r.out, "%s=%s\t", h.Key, h.Value)
		}
	}
	if r.separator != "" {
		_, _ = r.out.Write(rec.Key) // bufio.Writer keeps its first error for the last call
		_, _ = r.out.WriteString(r.separator)
	}
	_, _ = r.out.Write(rec.Value)
	return r.out.WriteByte('\n')
}
