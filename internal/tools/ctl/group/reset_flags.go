package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// resetFlags holds the flags of reset: which offsets to set, and to what.
type resetFlags struct {
	topics   []string
	earliest bool
	latest   bool
	offset   int64
	time     string
	shift    int64
	file     string

	kind string // the flag that is set
	at   parse.Position
	only map[string][]int32 // selected partitions by topic; none means all
	read []parse.TopicOffset
}

// kinds returns the flags of which exactly one must be given.
func kinds() []string {
	return []string{"to-earliest", "to-latest", "to-offset", "to-time", "shift-by", "from-file"}
}

func (w *resetFlags) flags(c *cobra.Command, a *app.App) {
	f := c.Flags()
	f.StringArrayVar(&w.topics, "topic", nil, "TOPIC or TOPIC:PARTITIONS to reset; repeatable")
	f.BoolVar(&w.earliest, "to-earliest", false, "read all records again")
	f.BoolVar(&w.latest, "to-latest", false, "read only new records")
	cli.AtLeast(int64(0)).Flag(f, &w.offset, "to-offset", "", 0, "continue at this offset")
	f.StringVar(&w.time, "to-time", "", "continue at the first record that is not older than this time; 5m, 2h or 7d for that long ago")
	f.Int64Var(&w.shift, "shift-by", 0, "continue this many offsets later, or earlier if negative")
	f.StringVar(&w.file, "from-file", "",
		"file with lines TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET, as group export writes it")
	app.CompleteFlag(c, "topic", a.Topics(0))
}

// check validates the flags and reads the file. It sends nothing.
func (w *resetFlags) check(cmd *cobra.Command, group string) error {
	var given []string
	for _, k := range kinds() {
		if cmd.Flags().Changed(k) {
			given = append(given, k)
		}
	}
	if len(given) != 1 {
		return app.Usage("give one of --%s; %d are given", strings.Join(kinds(), ", --"), len(given))
	}
	w.kind, w.only = given[0], map[string][]int32{}
	for _, s := range w.topics {
		topic, partitions, err := parse.TopicPartitions(s)
		if err != nil {
			return app.Usage("--topic %w", err)
		}
		if _, twice := w.only[topic]; twice {
			return app.Usage("--topic %s is given twice; write its partitions in one list", topic)
		}
		w.only[topic] = partitions
	}
	var err error
	switch w.kind {
	case "to-latest":
		w.at = parse.Position{Kind: parse.Latest}
	case "to-offset":
		w.at = parse.Position{Kind: parse.At, Offset: w.offset}
	case "to-time":
		w.at.Kind = parse.FromTime
		if w.at.Time, err = parse.Time(w.time, time.Now()); err != nil {
			return app.Usage("--to-time %w", err)
		}
	case "from-file":
		return w.open(group)
	}
	return nil
}

// open reads the file. If its lines name groups, it uses only those of this group.
func (w *resetFlags) open(group string) error {
	if len(w.only) > 0 {
		return app.Usage("--topic and --from-file exclude each other: the file names its topics")
	}
	f, err := os.Open(w.file)
	if err != nil {
		return app.Usage("--from-file: %w", err)
	}
	defer f.Close()
	all, err := parse.Offsets(f)
	for _, o := range all {
		if o.Group == "" || o.Group == group {
			w.read = append(w.read, o)
		}
	}
	switch {
	case err != nil:
	case len(all) == 0:
		err = errors.New("it has no offsets; write lines TOPIC,PARTITION,OFFSET")
	case len(w.read) == 0:
		err = fmt.Errorf("it has only offsets of other groups, such as %s; give one of those groups, or write lines TOPIC,PARTITION,OFFSET",
			all[0].Group)
	}
	if err != nil {
		return app.Usage("--from-file %s: %w", w.file, err)
	}
	return nil
}

// loadOrNew is load, but a missing group is an empty one: a reset creates it.
func loadOrNew(ctx context.Context, a *app.App, adm *kadm.Client, name string) (*described, error) {
	d, err := load(ctx, a, adm, name)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return &described{Group: name}, nil
	}
	return d, err
}

// plan determines the new offset of each partition.
func (w *resetFlags) plan(ctx context.Context, adm *kadm.Client, d *described) ([]move, error) {
	committed := map[string]map[int32]*int64{}
	only := maps.Clone(w.only)
	for _, p := range d.Partitions {
		if committed[p.Topic] == nil {
			committed[p.Topic] = map[int32]*int64{}
		}
		committed[p.Topic][p.Partition] = p.Committed
		if len(w.only) == 0 && w.read == nil && p.Committed != nil {
			only[p.Topic] = append(only[p.Topic], p.Partition)
		}
	}
	for _, o := range w.read {
		only[o.Topic] = append(only[o.Topic], o.Partition)
	}
	if len(only) == 0 {
		return nil, errors.New("it has no offsets; give the topics with --topic")
	}
	ranges, err := app.ListOffsets(ctx, adm, only)
	if err != nil {
		return nil, err
	}
	found, failed, err := ranges.Find(ctx, adm, w.at)
	if err := cmp.Or(err, failed.Err()); err != nil {
		return nil, err
	}
	for _, o := range w.read {
		found[o.Topic][o.Partition] = o.Offset
	}
	var moves []move
	for _, topic := range slices.Sorted(maps.Keys(ranges)) {
		for _, p := range ranges.Partitions(topic) {
			m, err := w.move(topic, p, ranges[topic][p], committed[topic][p], found[topic][p])
			if err != nil {
				return nil, err
			}
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// move limits a new offset to the offsets of the partition.
func (w *resetFlags) move(topic string, p int32, x app.OffsetRange, from *int64, to int64) (move, error) {
	m := move{Topic: topic, Partition: p, From: from, Start: x.Start, End: x.End}
	if w.kind == "shift-by" {
		if from == nil {
			return m, fmt.Errorf("%s partition %d has no offset to shift; select partitions that have one with --topic", topic, p)
		}
		to = *from + w.shift
		if w.shift > 0 && to < *from {
			to = x.End
		}
	}
	m.To = min(max(to, x.Start), x.End)
	if m.To != to {
		m.Note = fmt.Sprintf("%d does not exist", to)
	}
	return m, nil
}
