package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// moveRate is the broker config that bounds the bytes per second of moves between directories.
const moveRate = "replica.alter.log.dirs.io.max.bytes.per.second"

// logMoves is a run of broker move-logs.
type logMoves struct {
	a      *app.App
	adm    *kadm.Client
	broker int32
	out    app.Outcomes

	from, to, topic string
	throttle        int64 // bytes a second; 0: none
	cancel, dryRun  bool

	limited bool // --throttle is in force
	rates   move.Rates
}

func moveLogs(a *app.App) *cobra.Command {
	var o logMoves
	c := &cobra.Command{
		Use: "move-logs ID [DIRECTORY]", Short: "Move logs out of a log directory, or spread them over all",
		Args:              app.Args(1, 2, "one broker's id, and a directory"),
		ValidArgsFunction: a.Brokers(1),
		Long: "move-logs moves the logs of a broker between its log directories. With a directory it moves all logs out of it, for example\n" +
			"before the directory is removed from log.dirs, until a new reading finds none. Without one it moves as few bytes as possible\n" +
			"so that all directories have about the same, for example after log.dirs has grown. --to names the directory to which they\n" +
			"move, --topic those that move.\n" +
			"It shows the progress until all are moved. If it is interrupted, the broker completes the moves; the same command continues.\n" +
			"Clients are served meanwhile. --dry-run lists the moves, --cancel ends those in progress.",
		Example: "  chronikctl broker move-logs 1 /disk2/logs --dry-run\n  chronikctl broker move-logs 1 --throttle 50MiB",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			if o.broker = id; len(args) > 1 {
				o.from = args[1]
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				o.a, o.adm, o.rates = a, adm, moveRates(cl, o.throttle)
				err := o.run(ctx)
				return errors.Join(a.PrintOutcomes(&o.out), err)
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&o.to, "to", "", "move the logs to this directory; without it, to those with the most space")
	c.Flags().StringVar(&o.topic, "topic", "", "move only logs of TOPIC[:PARTITIONS]")
	move.Throttle(c, &o.throttle, "the broker")
	c.Flags().BoolVar(&o.cancel, "cancel", false, "cancel the moves in progress")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only list what would be moved")
	return c
}

// cancelRounds is how often a move that is still listed is canceled again.
const cancelRounds = 50

// storedLog is a log in a directory.
type storedLog struct {
	topic     string
	partition int32
	size      int64
	dir       string
	to        string // the directory to which it moves, empty if it does not
	copied    int64
}

func (l *storedLog) String() string { return fmt.Sprintf("%s-%d", l.topic, l.partition) }

// logPlace is a directory of the broker.
type logPlace struct {
	path string
	free int64
	size int64 // of the logs that it has or will have
}

// read returns the directories and the logs of the broker, largest first.
func (o *logMoves) read(ctx context.Context) (dirs []*logPlace, logs []*storedLog, err error) {
	all, err := o.adm.DescribeBrokerLogDirs(ctx, o.broker, nil)
	if err != nil {
		return nil, nil, app.Refused(fmt.Sprintf("log directories of broker %d", o.broker), app.BrokerError(err), "")
	}
	type key struct {
		topic     string
		partition int32
	}
	futures, byKey := map[key]kadm.DescribedLogDirPartition{}, map[key]*storedLog{}
	for _, d := range all.Sorted() {
		if d.Err == nil {
			dirs = append(dirs, &logPlace{path: d.Dir, free: d.UsableBytes})
		}
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			k := key{p.Topic, p.Partition}
			if p.IsFuture {
				futures[k] = p
				return
			}
			byKey[k] = &storedLog{topic: p.Topic, partition: p.Partition, size: p.Size, dir: d.Dir}
		})
	}
	for k, f := range futures {
		if l := byKey[k]; l != nil {
			l.to, l.copied = f.Dir, f.Size
		}
	}
	logs = sorts.Sorted(maps.Values(byKey), func(a, b *storedLog) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	for _, l := range logs {
		for _, d := range dirs {
			if d.path == cmp.Or(l.to, l.dir) {
				d.size += l.size
			}
		}
	}
	return dirs, logs, nil
}

// choose returns the logs that are to move, with their destinations.
func (o *logMoves) choose(dirs []*logPlace, logs []*storedLog) (moves []*storedLog, err error) {
	if err := o.work(dirs, o.from, o.to); err != nil {
		return nil, err
	}
	wants, err := o.wanted()
	switch {
	case err != nil:
		return nil, err
	case o.from != "" && o.from == o.to:
		return nil, app.Usage("--to %s is the directory from which the logs move; name another one", o.to)
	case o.from == "" && o.to == "" && o.topic == "":
		return balance(dirs, logs), nil
	}
	for _, l := range logs {
		if !wants(l) || o.from != "" && l.dir != o.from || l.dir == o.to || o.from == "" && o.to == "" {
			continue
		}
		if l.to != "" && (o.to == "" || l.to == o.to) { // it moves already
			moves = append(moves, l)
			continue
		}
		l.to = o.to
		if l.to == "" {
			var best *logPlace
			for _, d := range dirs {
				if d.path != l.dir && (best == nil || d.free > best.free) {
					best = d
				}
			}
			if best == nil {
				return nil, app.WithCode(app.ExitFailed,
					fmt.Errorf("broker %d has no other log directory; add one to log.dirs first", o.broker))
			}
			l.to = best.path
			best.free -= l.size
		}
		moves = append(moves, l)
	}
	return moves, nil
}

// work returns an error unless these directories work. An empty path names none.
func (o *logMoves) work(dirs []*logPlace, paths ...string) error {
	for _, path := range paths {
		if path != "" && !slices.ContainsFunc(dirs, func(d *logPlace) bool { return d.path == path }) {
			return app.WithCode(app.ExitFailed,
				fmt.Errorf("broker %d has no log directory %s that works; chronikctl broker describe %d lists them", o.broker, path, o.broker))
		}
	}
	return nil
}

// wanted returns what --topic selects.
func (o *logMoves) wanted() (func(*storedLog) bool, error) {
	if o.topic == "" {
		return func(*storedLog) bool { return true }, nil
	}
	topic, partitions, err := parse.TopicPartitions(o.topic)
	if err != nil {
		return nil, app.Usage("--topic: %w", err)
	}
	if o.from == "" && o.to == "" && !o.cancel {
		return nil, app.Usage("to which directory? Add --to DIRECTORY")
	}
	return func(l *storedLog) bool {
		return l.topic == topic && (partitions == nil || slices.Contains(partitions, l.partition))
	}, nil
}

// balance moves logs from the fullest directory to the emptiest one as long as that brings them
// closer.
func balance(dirs []*logPlace, logs []*storedLog) (moves []*storedLog) {
	for range logs {
		least := slices.MinFunc(dirs, func(a, b *logPlace) int { return cmp.Compare(a.size, b.size) })
		most := slices.MaxFunc(dirs, func(a, b *logPlace) int { return cmp.Compare(a.size, b.size) })
		i := slices.IndexFunc(logs, func(l *storedLog) bool {
			return l.to == "" && l.dir == most.path && l.size > 0 && l.size <= (most.size-least.size)/2
		})
		if i < 0 {
			break
		}
		logs[i].to = least.path
		most.size, least.size = most.size-logs[i].size, least.size+logs[i].size
		moves = append(moves, logs[i])
	}
	return moves
}

func (o *logMoves) run(ctx context.Context) error {
	dirs, logs, err := o.read(ctx)
	if err != nil {
		return err
	}
	if o.cancel {
		return o.cancelAll(ctx, logs)
	}
	if o.dryRun {
		return o.list(dirs, logs)
	}
	if err := o.all(ctx, dirs, logs); err != nil {
		return o.unlimited(ctx, err)
	}
	return o.unlimit(ctx)
}

// list is --dry-run.
func (o *logMoves) list(dirs []*logPlace, logs []*storedLog) error {
	moves, err := o.choose(dirs, logs)
	if err != nil {
		return err
	}
	if len(moves) == 0 {
		return o.nothing(logs)
	}
	var bytes int64
	for _, l := range moves {
		o.out.Done(l.String(), "would move from %s to %s", l.dir, l.to)
		bytes += l.size
	}
	o.a.Note("%s, %s to copy; nothing was done", text.Count(len(moves), "move"), text.Bytes(bytes))
	return nil
}

// all moves what was read. It reads again and moves until a directory that is to be emptied has no
// logs: the broker may place new ones there meanwhile, as that directory has the fewest.
func (o *logMoves) all(ctx context.Context, dirs []*logPlace, logs []*storedLog) error {
	for {
		moves, err := o.choose(dirs, logs)
		if err != nil {
			return err
		}
		if len(moves) == 0 {
			return o.nothing(logs)
		}
		if err := o.limit(ctx); err != nil {
			return err
		}
		if _, err := o.request(ctx, moves); err != nil {
			return err
		}
		if err := o.follow(ctx, moves); err != nil || !o.emptied() {
			return err
		}
		if dirs, logs, err = o.read(ctx); err != nil {
			return err
		}
		if n := o.left(logs); n > 0 {
			o.a.Note("%s placed in %s meanwhile; moving again", text.Plural(n, "log was", "logs were"), o.from)
		}
	}
}

// left returns how many logs the directory has that is to be emptied.
func (o *logMoves) left(logs []*storedLog) (n int) {
	for _, l := range logs {
		if l.dir == o.from {
			n++
		}
	}
	return n
}

// emptied reports whether all logs of a directory were to move.
func (o *logMoves) emptied() bool { return o.from != "" && o.topic == "" }

// nothing states that no log has to move. The logs must be those of a read after the last move.
func (o *logMoves) nothing(logs []*storedLog) error {
	broker := fmt.Sprintf("broker %d", o.broker)
	arrives := slices.IndexFunc(logs, func(l *storedLog) bool { return l.to == o.from })
	switch {
	case o.emptied() && arrives >= 0:
		l := logs[arrives]
		return app.WithCode(app.ExitFailed, fmt.Errorf("%s moves from %s to %s, as another command has asked; chronikctl broker "+
			"move-logs %d %s --cancel ends the moves from there, and the same command continues", l, l.dir, o.from, o.broker, l.dir))
	case o.emptied():
		o.out.Done(o.from, "has no logs; it may be removed from log.dirs, with its entry of journal.dirs, before the next start")
	case o.to != "":
		o.out.Done(broker, "has its logs there")
	default:
		o.out.Done(broker, "has its logs spread evenly over its directories, or has one directory")
	}
	return nil
}

// request asks for moves, and returns the logs for which they were refused.
func (o *logMoves) request(ctx context.Context, moves []*storedLog) (refused []string, err error) {
	var req kadm.AlterReplicaLogDirsReq
	for _, l := range moves {
		set := kadm.TopicsSet{}
		set.Add(l.topic, l.partition)
		req.Add(l.to, set)
	}
	answers, err := o.adm.AlterBrokerReplicaLogDirs(ctx, o.broker, req)
	if err != nil {
		return nil, app.Refused("move logs", app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
	}
	for _, x := range answers.Sorted() {
		if x.Err != nil {
			name := fmt.Sprintf("%s-%d", x.Topic, x.Partition)
			var where string // the answer has no text, and a broker logs the reasons that have no code of their own
			if errors.Is(x.Err, kerr.KafkaStorageError) || errors.Is(x.Err, kerr.UnknownServerError) {
				where = "the broker's log has the reason"
			}
			o.out.Refused(name, "move "+name, x.Err, where)
			refused = append(refused, name)
		}
	}
	return refused, nil
}

// follow waits until the moves are complete.
func (o *logMoves) follow(ctx context.Context, moves []*storedLog) error {
	progress := move.NewProgress(time.Now())
	for {
		dirs, logs, err := o.read(ctx)
		if err != nil {
			return err
		}
		left, bytes, gone := 0, int64(0), map[*storedLog]bool{}
		for _, m := range moves {
			i := slices.IndexFunc(logs, func(l *storedLog) bool { return l.topic == m.topic && l.partition == m.partition })
			if i >= 0 && logs[i].dir == m.to {
				continue
			}
			if i < 0 {
				if err := o.work(dirs, m.dir, m.to); err != nil {
					return fmt.Errorf("%s has not moved: %w", m, err)
				}
				gone[m] = true
				continue
			}
			if logs[i].to == "" {
				return app.WithCode(app.ExitFailed,
					fmt.Errorf("%s does not move to %s any longer: the move was refused or canceled", m, m.to))
			}
			left, bytes = left+1, bytes+max(logs[i].size-logs[i].copied, 0)
		}
		if left == 0 {
			for _, m := range moves {
				if gone[m] {
					o.out.Done(m.String(), "is no longer on the broker")
				} else {
					o.out.Done(m.String(), "moved from %s to %s", m.dir, m.to)
				}
			}
			return nil
		}
		line := fmt.Sprintf("%d of %s complete, %s left to copy", len(moves)-left, text.Count(len(moves), "move"), text.Bytes(bytes))
		if said := progress.Line(time.Now(), line); said != "" {
			o.a.Note("%s", said)
		}
		if err := pause.Sleep(ctx, 200*time.Millisecond); err != nil {
			return app.WithCode(app.ExitFailed,
				fmt.Errorf("interrupted: %s; the broker completes the moves, and the same command continues", line))
		}
	}
}

// cancelAll ends the moves in progress. Kafka's request for that asks for a move to the directory
// where the log is. If the log has moved before, that would copy it back, so it is asked to stay.
func (o *logMoves) cancelAll(ctx context.Context, logs []*storedLog) error {
	wants, err := o.wanted()
	if err != nil {
		return err
	}
	var stay []*storedLog // where they are
	for _, l := range logs {
		if l.to != "" && wants(l) && (o.from == "" || l.dir == o.from) {
			stay = append(stay, &storedLog{topic: l.topic, partition: l.partition, dir: l.dir, to: l.dir})
		}
	}
	if len(stay) == 0 {
		o.out.Done(fmt.Sprintf("broker %d", o.broker), "moves no logs")
		return nil
	}
	for round := 0; len(stay) > 0; round++ {
		refused, err := o.request(ctx, stay)
		if err != nil {
			return err
		}
		stay = slices.DeleteFunc(stay, func(l *storedLog) bool { return slices.Contains(refused, l.String()) })
		if _, logs, err = o.read(ctx); err != nil {
			return err
		}
		stay = slices.DeleteFunc(stay, func(l *storedLog) bool {
			i := slices.IndexFunc(logs, func(x *storedLog) bool { return x.topic == l.topic && x.partition == l.partition })
			switch {
			case i < 0:
				o.out.Done(l.String(), "is no longer on the broker")
			case logs[i].to == "":
				o.out.Done(l.String(), "stays in %s", logs[i].dir)
			case round == cancelRounds:
				o.out.Failed(l.String(), fmt.Errorf("%s still moves from %s to %s, although the broker has accepted to cancel that; "+
					"chronikctl cluster health names what is wrong with its directories", l, logs[i].dir, logs[i].to))
			default: // it had moved, or another command moves it
				l.dir, l.to = logs[i].dir, logs[i].dir
				return false
			}
			return true
		})
		if len(stay) > 0 && pause.Sleep(ctx, 100*time.Millisecond) != nil {
			return app.WithCode(app.ExitFailed,
				fmt.Errorf("interrupted: %s not known to be canceled", text.Plural(len(stay), "move is", "moves are")))
		}
	}
	if o.throttle == 0 {
		return nil
	}
	_, err = o.rates.Remove(ctx, o.broker, []int32{o.broker})
	return err
}

// moveRates returns the rate of moves between the directories of a broker.
func moveRates(cl *kgo.Client, rate int64) move.Rates {
	return move.Rates{Client: cl, Names: []string{moveRate}, Value: strconv.FormatInt(rate, 10), What: "bound the rate of moves"}
}

// limit sets the rate of --throttle, and notes the one that the operator had set.
func (o *logMoves) limit(ctx context.Context) error {
	if o.throttle == 0 || o.limited {
		return nil
	}
	err := o.rates.Note(ctx, []int32{o.broker}, false)
	if err == nil {
		err = o.rates.Set(ctx, o.broker, []int32{o.broker})
	}
	o.limited = err == nil
	return err
}

// unlimit ends the rate of --throttle: the one of before counts again, unless another command has
// set one meanwhile.
func (o *logMoves) unlimit(ctx context.Context) error {
	if !o.limited {
		return nil
	}
	return o.rates.End(ctx, o.broker, []int32{o.broker}, []int32{o.broker}, o.a.Note)
}

// unlimited is unlimit after an error of the moves, which it returns. If the rate stays, the error
// says so.
func (o *logMoves) unlimited(ctx context.Context, failed error) error {
	if !o.limited {
		return failed
	}
	if _, logs, err := o.read(ctx); err == nil && !slices.ContainsFunc(logs, func(l *storedLog) bool { return l.to != "" }) {
		if err := o.unlimit(ctx); err == nil {
			return failed
		}
	}
	restore := fmt.Sprintf("chronikctl config unset broker %d %s", o.broker, moveRate)
	if former := o.rates.Former(); len(former) > 0 {
		restore = former[0]
	}
	return fmt.Errorf("%w; broker %d copies at most %s bytes a second until %s", failed, o.broker, o.rates.Value, restore)
}
