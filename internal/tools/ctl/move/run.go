package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

const (
	// defaultAtATime is how many partitions are copied at a time: enough to keep disks and network
	// busy, and few enough that clients hardly notice it (docs/performance.md).
	defaultAtATime = 4
	// most is how many moves one request has if nothing is copied.
	most = 500
	// changedAfter is how often the metadata must not show a move that is not in progress, before
	// it counts as cancelled: the broker that is asked may be behind. So often a partition may have
	// no leader, which an election may change.
	changedAfter = 50
	// pollGap is the time between two questions for the moves in progress.
	pollGap = 200 * time.Millisecond
)

// Options are the flags of commands that move replicas.
type Options struct {
	DryRun   bool
	atATime  int
	throttle string
}

// Flags adds the flags to a command.
func (o *Options) Flags(c *cobra.Command) {
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only list what would be moved, with the bytes to copy, and the elections")
	c.Flags().IntVar(&o.atATime, "at-a-time", defaultAtATime, "how many partitions are copied at a time")
	c.Flags().StringVar(&o.throttle, "throttle", "", "bytes a second that each broker copies at most, such as 20MiB; removed at the end")
}

// Once returns the options of a run that copies nothing.
func Once() Options { return Options{atATime: 1} }

// Help is the part of the help that commands with Options share.
const Help = "It shows the progress until all copies are complete. If it is interrupted, the brokers complete the moves that have begun;\n" +
	"the same command continues. Clients are served meanwhile. --dry-run lists the moves and the elections."

// Check returns what is wrong with the flags.
func (o *Options) Check() error {
	if o.atATime < 1 {
		return app.Usage("--at-a-time %d: at least 1 partition is copied at a time", o.atATime)
	}
	if n, err := o.rate(); err != nil || o.throttle != "" && n < 1 {
		return app.Usage("--throttle %q is not a number of bytes a second; write for example 20MiB", o.throttle)
	}
	return nil
}

// rate returns the limit in bytes a second, 0 for none.
func (o *Options) rate() (int64, error) {
	if o.throttle == "" {
		return 0, nil
	}
	return parse.Size(o.throttle)
}

// run carries out a plan.
type run struct {
	*Plan
	a       *app.App
	adm     *kadm.Client
	out     *app.Outcomes
	limit   limit
	atATime int

	waiting       []Move              // not requested yet
	begun         map[partition]*Move // requested, and not complete
	done          map[string]int      // complete, by topic
	failed        map[string]bool
	total         int
	copied, bytes int64          // bytes that are copied and that were planned
	missing       map[int32]bool // brokers that were reported as not active
	lines         *Progress
}

// Run carries out a plan. It requests the moves, a bounded number of copies at a time, waits until
// they are complete, and elects the preferred leaders of what has moved. It adds the outcome of
// each topic.
func (p *Plan) Run(ctx context.Context, a *app.App, adm *kadm.Client, o Options, out *app.Outcomes) error {
	moves := p.Moves()
	if o.DryRun {
		var bytes int64
		for _, m := range moves {
			out.Done(m.String(), "would move %s", m.change())
			bytes += m.copies()
		}
		elections := p.elections(moves)
		for _, x := range elections {
			out.Done(x.String(), "%s", x.would())
		}
		if len(moves)+len(elections) > 0 {
			a.Note("%s, %s to copy, %s; nothing was done", text.Count(len(moves), "move"), text.Bytes(bytes),
				text.Count(len(elections), "election"))
		}
		return nil
	}
	rate, err := o.rate()
	if err != nil {
		return err
	}
	r := &run{Plan: p, a: a, adm: adm, out: out, limit: limit{adm: adm, rate: rate, named: map[partition]bool{}},
		atATime: o.atATime, waiting: moves, begun: map[partition]*Move{},
		done: map[string]int{}, failed: map[string]bool{}, missing: map[int32]bool{}, lines: NewProgress(time.Now())}
	for topic, partitions := range p.moving {
		for n, m := range partitions {
			if at := (partition{topic, n}); p.topics[topic] && !slices.ContainsFunc(moves, func(x Move) bool { return x.partition == at }) {
				r.begun[at] = &Move{partition: at, from: m.Replicas, to: m.Replicas, bytes: -1}
			}
		}
	}
	r.total = len(moves) + len(r.begun)
	for _, m := range moves {
		r.bytes += m.copies()
	}
	if r.total > 0 {
		if err := r.all(ctx); err != nil {
			if ctx.Err() != nil {
				return r.interrupted(rate)
			}
			return err
		}
	}
	elected := r.elect(ctx, moves)
	for _, topic := range slices.Sorted(maps.Keys(r.done)) {
		out.Done(topic, "moved %s", text.Count(r.done[topic], "partition"))
	}
	for _, topic := range slices.Sorted(maps.Keys(elected)) {
		out.Done(topic, "elected %s", text.Count(elected[topic], "preferred leader"))
	}
	return r.limit.release(ctx, p.topics)
}

func (r *run) interrupted(rate int64) error {
	more := ""
	if rate > 0 {
		more = "; --throttle stays in force for these"
	}
	return app.WithCode(app.ExitFailed, fmt.Errorf("interrupted: %d of %s complete, and the brokers complete %d more%s; the same command continues",
		r.total-len(r.waiting)-len(r.begun), text.Count(r.total, "move"), len(r.begun), more))
}

// all requests the moves and waits until none is left.
func (r *run) all(ctx context.Context) error {
	for {
		if err := r.begin(ctx); err != nil {
			return err
		}
		var moving kadm.ListPartitionReassignmentsResponses
		topics := r.topicsBegun()
		if len(topics) > 0 {
			var err error
			if moving, err = app.Moves(ctx, r.adm, topics...); err != nil {
				return err
			}
		}
		now, err := r.adm.Metadata(ctx, topics...)
		if err != nil {
			return app.Refused("read the metadata", app.BrokerError(err), "")
		}
		for at, m := range r.begun {
			if _, goesOn := moving[at.topic][at.n]; !goesOn {
				r.end(m, now)
			} else {
				r.leaderless(m, now)
			}
		}
		if len(r.waiting)+len(r.begun) == 0 {
			return nil
		}
		r.progress(now)
		if err := pause.Sleep(ctx, pollGap); err != nil {
			return err
		}
	}
}

// topicsBegun returns the topics with moves that are not complete.
func (r *run) topicsBegun() []string {
	topics := map[string]bool{}
	for at := range r.begun {
		topics[at.topic] = true
	}
	return slices.Sorted(maps.Keys(topics))
}

// begin requests as many moves as may be in progress.
func (r *run) begin(ctx context.Context) error {
	copying := 0
	for _, m := range r.begun {
		if len(m.adds()) > 0 || slices.Equal(m.from, m.to) { // the latter began before this run
			copying++
		}
	}
	var batch []Move
	for len(r.waiting) > 0 && len(batch) < most {
		if len(r.waiting[0].adds()) > 0 {
			if copying >= r.atATime {
				break
			}
			copying++
		}
		batch, r.waiting = append(batch, r.waiting[0]), r.waiting[1:]
	}
	if len(batch) == 0 {
		return nil
	}
	if err := r.limit.set(ctx, batch, r.waiting); err != nil {
		return err
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, m := range batch {
		req.Assign(m.topic, m.n, m.to)
	}
	answers, err := r.adm.AlterPartitionAssignments(ctx, req)
	for _, m := range batch {
		x, ok := answers[m.topic][m.n]
		switch {
		case err != nil:
			x.Err = app.BrokerError(err)
		case !ok:
			x.Err = errors.New("the broker did not answer for it; try again")
		}
		if x.Err == nil {
			r.begun[m.partition] = &m
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !r.failed[m.topic] { // one reason for each topic
			r.out.Failed(m.topic, app.RefusedFor("move "+m.String(), x.Err, x.ErrMessage, r.choices(&m, x.Err)))
		}
		r.failed[m.topic] = true
	}
	return nil
}

// end counts a move that is not in progress, once the metadata show that it is complete. The two
// answers may be of different brokers, of which one does not know of the move yet. So a copy counts
// when it is in sync, and a move that the metadata do not show for long was cancelled or replaced.
func (r *run) end(m *Move, now kadm.Metadata) {
	is := now.Topics[m.topic].Partitions[m.n]
	before := slices.Equal(m.from, m.to)
	copied := !slices.ContainsFunc(m.adds(), func(b int32) bool { return !slices.Contains(is.ISR, b) })
	if m.seen++; !before && m.seen < changedAfter && !(copied && slices.Equal(is.Replicas, m.to)) {
		return
	}
	delete(r.begun, m.partition)
	if !before && !slices.Equal(is.Replicas, m.to) && !m.exceeded(is.Replicas) {
		r.out.Failed(m.topic, fmt.Errorf("move %s: its replicas are %s, not %s: the move was cancelled or replaced meanwhile", m,
			text.Numbers(is.Replicas), text.Numbers(m.to)))
		return
	}
	r.done[m.topic]++
	r.copied += m.copies()
}

// leaderless gives a move up, for this run, whose partition has had no leader for long.
func (r *run) leaderless(m *Move, now kadm.Metadata) {
	if now.Topics[m.topic].Partitions[m.n].Leader >= 0 {
		m.seen = 0
		return
	}
	if m.seen++; m.seen < changedAfter {
		return
	}
	delete(r.begun, m.partition)
	r.out.Failed(m.topic, fmt.Errorf("move %s: it has no leader to copy from; the move continues when it has one, and chronikctl cluster health "+
		"says what it waits for", m))
}

// progress prints how far the moves are, and brokers for which they wait.
func (r *run) progress(now kadm.Metadata) {
	for _, m := range r.begun {
		for _, b := range m.adds() {
			if !r.missing[b] && !slices.Contains(now.Brokers.NodeIDs(), b) {
				r.missing[b] = true
				r.a.Note("broker %d is not active: what moves to it waits until it is started", b)
			}
		}
	}
	line := fmt.Sprintf("%d of %s complete, %s of %s copied, %d in progress", r.total-len(r.waiting)-len(r.begun),
		text.Count(r.total, "move"), text.Bytes(r.copied), text.Bytes(r.bytes), len(r.begun))
	if line = r.lines.Line(time.Now(), line); line != "" {
		r.a.Note("%s", line)
	}
}

// asked returns the partitions whose preferred leaders are elected after the moves: what moves, and
// what the plan elects.
func (p *Plan) asked(moves []Move) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	for i := range moves {
		set.Add(moves[i].topic, moves[i].n)
	}
	for _, at := range p.elects {
		set.Add(at.topic, at.n)
	}
	return set
}

// elections returns those of asked that another broker leads now. One without a leader has nothing
// to elect from.
func (p *Plan) elections(moves []Move) (all []*part) {
	asked := p.asked(moves)
	for _, x := range p.parts {
		if asked.Lookup(x.topic, x.n) && x.leader >= 0 && x.leader != x.to[0] {
			all = append(all, x)
		}
	}
	return all
}

// would returns what an election of the preferred leader would do. A replica that the plan adds is
// in sync when it is elected.
func (x *part) would() string {
	if first := x.to[0]; slices.Contains(x.was, first) && !slices.Contains(x.isr, first) {
		return fmt.Sprintf("would stay with broker %d until broker %d, its preferred leader, is in sync", x.leader, first)
	}
	return fmt.Sprintf("would be led by broker %d, not by broker %d", x.to[0], x.leader)
}

// elect makes the preferred leaders of what has moved lead, and those that the plan elects, and
// returns how many were elected of each topic. One that cannot lead yet does so later: the
// controller tries again.
func (r *run) elect(ctx context.Context, moves []Move) (elected map[string]int) {
	set := r.asked(moves)
	if len(set) == 0 {
		return nil
	}
	answers, err := r.adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	later := 0
	elected = map[string]int{}
	for _, x := range r.parts {
		switch answer, asked := answers[x.topic][x.n]; {
		case err != nil, !asked, errors.Is(answer.Err, kerr.ElectionNotNeeded):
		case answer.Err == nil:
			elected[x.topic]++
		default:
			later++
			if errors.Is(answer.Err, kerr.PreferredLeaderNotAvailable) && !slices.Contains(r.unable, x.to[0]) {
				r.unable = append(r.unable, x.to[0])
			}
		}
	}
	if err != nil {
		later = len(moves) + len(r.elects)
	}
	if later > 0 {
		r.a.Note("%s led by its preferred leader later, when that is in sync", text.Plural(later, "partition is", "partitions are each"))
	}
	return elected
}

// choices returns the remedy for a move that names brokers which are not active, "" for others.
func (r *run) choices(m *Move, err error) string {
	if !errors.Is(err, kerr.InvalidReplicaAssignment) || !slices.ContainsFunc(m.to, func(b int32) bool { return !r.active(b) }) {
		return ""
	}
	var ids []int32
	for _, b := range r.brokers {
		ids = append(ids, b.NodeID)
	}
	return text.Count(len(ids), "broker") + " can have replicas now: " + text.Numbers(ids) + "; chronikctl broker list shows all"
}
