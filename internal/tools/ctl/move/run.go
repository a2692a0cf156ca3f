package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
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
	throttle int64 // bytes a second; 0: none
}

// Flags adds the flags to a command.
func (o *Options) Flags(c *cobra.Command) {
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only list what would be moved, with the bytes to copy, and the elections")
	cli.AtLeast(1).Flag(c.Flags(), &o.atATime, "at-a-time", "", defaultAtATime, "how many partitions are copied at a time")
	Throttle(c, &o.throttle, "each broker")
}

// Throttle adds the flag with the bytes a second that brokers copy at most; 0: it was not given.
func Throttle(c *cobra.Command, rate *int64, who string) {
	parse.Sizes(cli.AtLeast(int64(1))).Flag(c.Flags(), rate, "throttle", "", 0,
		"bytes a second that "+who+" copies at most, such as 20MiB; the former limit counts again at the end")
}

// Once returns the options of a run that copies nothing.
func Once() Options { return Options{atATime: 1} }

// Help is the part of the help that commands with Options share.
const Help = "It shows the progress until all copies are complete. If it is interrupted, the brokers complete the moves that have begun;\n" +
	"the same command continues. Clients are served meanwhile. --dry-run lists the moves and the elections."

// run carries out a plan.
type run struct {
	*Plan
	a       *app.App
	adm     *kadm.Client
	out     *app.Outcomes
	limit   *limit
	atATime int
	gap     time.Duration // between two questions for the moves in progress

	planned       []Move
	waiting       []Move              // not requested yet
	begun         map[partition]*Move // requested, and not complete
	done          map[string]int      // complete, by topic
	failed        map[string]bool
	total         int
	copied, bytes int64          // bytes that are copied and that were planned
	missing       map[int32]bool // brokers that were reported as not active
	alive         []int32        // brokers that are active
	lines         *Progress
}

// Run carries out a plan. It requests the moves, a bounded number of copies at a time, waits until
// they are complete, and elects the preferred leaders of what has moved. It adds the outcome of
// each topic.
func (p *Plan) Run(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, o Options, out *app.Outcomes) error {
	if o.DryRun {
		moves := p.Moves()
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
	return p.newRun(a, adm, cl, o, out).do(ctx)
}

// newRun returns a run of what is planned, and of the moves in progress of the topics that the plan
// is about.
func (p *Plan) newRun(a *app.App, adm *kadm.Client, cl *kgo.Client, o Options, out *app.Outcomes) *run {
	moves := p.Moves()
	r := &run{Plan: p, a: a, adm: adm, out: out, limit: newLimit(adm, cl, o.throttle, a.Note),
		atATime: o.atATime, gap: pollGap, planned: moves, waiting: slices.Clone(moves), begun: map[partition]*Move{},
		done: map[string]int{}, failed: map[string]bool{}, missing: map[int32]bool{}, lines: NewProgress(time.Now())}
	for _, at := range p.inProgress() {
		m := p.moving[at.topic][at.n]
		r.begun[at] = &Move{partition: at, from: m.Replicas, to: m.Replicas, bytes: -1}
	}
	for _, b := range p.brokers {
		r.alive = append(r.alive, b.NodeID)
	}
	r.total = len(moves) + len(r.begun)
	for _, m := range moves {
		r.bytes += m.copies()
	}
	return r
}

func (r *run) do(ctx context.Context) error {
	if r.total > 0 {
		if err := r.all(ctx); err != nil {
			if ctx.Err() != nil {
				return r.interrupted(r.limit.rate)
			}
			if r.limit.rate > 0 { // errors may pass, and --throttle must not stay for what does not move
				if r.limit.release(ctx, r.topics) != nil || len(r.begun) > 0 {
					err = fmt.Errorf("%w; --throttle stays in force for the moves in progress, until the same command ends them%s", err, r.former())
				}
			}
			return err
		}
	}
	elected := r.elect(ctx, r.planned)
	for _, topic := range slices.Sorted(maps.Keys(r.done)) {
		r.out.Done(topic, "moved %s", text.Count(r.done[topic], "partition"))
	}
	for _, topic := range slices.Sorted(maps.Keys(elected)) {
		r.out.Done(topic, "elected %s", text.Count(elected[topic], "preferred leader"))
	}
	err := r.limit.release(ctx, r.topics)
	if err != nil && r.limit.rate > 0 {
		return fmt.Errorf("%w; --throttle may stay in force until the same command ends it%s", err, r.former())
	}
	if err == nil && r.limit.stay {
		r.a.Note("%s and %s stay on the brokers for other moves in progress; the last command that moves with --throttle removes them%s",
			leaderRate, followerRate, r.former())
	}
	return err
}

// former says how to restore the rates of before, which no other command knows.
func (r *run) former() string {
	commands := r.limit.rates.Former()
	if len(commands) == 0 {
		return ""
	}
	return "; the rates of before count again with " + strings.Join(commands, ", ")
}

func (r *run) interrupted(rate int64) error {
	more := ""
	if rate > 0 {
		more = "; --throttle stays in force for these" + r.former()
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
		r.alive = now.Brokers.NodeIDs()
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
		r.progress()
		if err := pause.Sleep(ctx, r.gap); err != nil {
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

// next takes the moves that may begin off those that wait. A copy to a broker that is not active
// comes last, and does not count as one in progress: the others would wait for that broker.
func (r *run) next() (batch []Move) {
	copying, standing := 0, 0
	for _, m := range r.begun {
		switch adds := r.adding(m); {
		case len(adds) == 0:
		case r.down(adds):
			standing++
		default:
			copying++
		}
	}
	take := func(may func(adds []int32) bool) {
		r.waiting = slices.DeleteFunc(r.waiting, func(m Move) bool {
			if len(batch) == most || !may(m.adds()) {
				return false
			}
			batch = append(batch, m)
			return true
		})
	}
	take(func(adds []int32) bool { return len(adds) == 0 })
	take(func(adds []int32) bool {
		if r.down(adds) || copying >= r.atATime {
			return false
		}
		copying++
		return true
	})
	if !slices.ContainsFunc(r.waiting, func(m Move) bool { return !r.down(m.adds()) }) {
		take(func([]int32) bool {
			standing++
			return copying+standing <= r.atATime
		})
	}
	return batch
}

// adding returns the brokers that copy the log of a move that has begun, perhaps before this run.
func (r *run) adding(m *Move) []int32 {
	if slices.Equal(m.from, m.to) {
		return r.moving[m.topic][m.n].AddingReplicas
	}
	return m.adds()
}

// down reports whether one of some brokers is not active.
func (r *run) down(brokers []int32) bool {
	return slices.ContainsFunc(brokers, func(b int32) bool { return !slices.Contains(r.alive, b) })
}

// unchanged returns those of a batch whose partitions have the replicas from which their moves were
// planned, perhaps hours ago. To request the others would undo what another command or the
// controller has done since, such as a higher number of replicas. They wait, because the broker
// that answers may be behind, and fail in the end. forbids are those whose request forbids another
// number of replicas: the controller compares it when it writes.
func (r *run) unchanged(ctx context.Context, batch []Move) (ready []Move, forbids map[partition]bool, err error) {
	topics, forbids := map[string]bool{}, map[partition]bool{}
	for i := range batch {
		topics[batch[i].topic] = true
	}
	if len(batch) == 0 {
		return nil, nil, nil
	}
	names := slices.Sorted(maps.Keys(topics))
	moving, err := app.Moves(ctx, r.adm, names...)
	if err != nil {
		return nil, nil, err
	}
	now, err := r.adm.Metadata(ctx, names...)
	if err != nil {
		return nil, nil, app.Refused("read the metadata", app.BrokerError(err), "")
	}
	for _, m := range batch {
		at, moves := moving[m.topic][m.n]
		is := without(now.Topics[m.topic].Partitions[m.n].Replicas, at.RemovingReplicas)
		switch {
		case len(is) == 0, same(is, m.from), same(is, m.to): // the broker refuses one that does not exist
			m.seen = 0
			forbids[m.partition] = !moves && len(m.from) == len(m.to)
			ready = append(ready, m)
		case m.seen < changedAfter:
			m.seen++
			r.waiting = append(r.waiting, m)
		default:
			r.fail(&m, fmt.Errorf("move %s: its replicas are %s now, not %s as when the command began: they were changed meanwhile; "+
				"run the command again", &m, text.Numbers(is), text.Numbers(m.from)))
		}
	}
	return ready, forbids, nil
}

// same reports whether two lists have the same brokers. Another order means another preferred
// leader, which a move replaces.
func same(a, b []int32) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// fail adds the failure of a move: one for each topic.
func (r *run) fail(m *Move, err error) {
	if !r.failed[m.topic] {
		r.out.Failed(m.topic, err)
	}
	r.failed[m.topic] = true
}

// begin requests as many moves as may be in progress.
func (r *run) begin(ctx context.Context) error {
	batch, forbids, err := r.unchanged(ctx, r.next())
	if err != nil || len(batch) == 0 {
		return err
	}
	if err := r.limit.set(ctx, batch, r.waiting); err != nil {
		return err
	}
	var compared, free kadm.AlterPartitionAssignmentsReq
	for _, m := range batch {
		if forbids[m.partition] {
			compared.Assign(m.topic, m.n, m.to)
		} else {
			free.Assign(m.topic, m.n, m.to)
		}
	}
	ofCompared, comparedErr := r.adm.AlterPartitionAssignments(kadm.ForbidAlterRf(ctx), compared)
	ofFree, freeErr := r.adm.AlterPartitionAssignments(ctx, free)
	var began []Move
	for _, m := range batch {
		answers, err := ofFree, freeErr
		if forbids[m.partition] {
			answers, err = ofCompared, comparedErr
		}
		x, ok := answers[m.topic][m.n]
		switch {
		case err != nil:
			x.Err = app.BrokerError(err)
		case !ok:
			x.Err = errors.New("the broker did not answer for it; try again")
		}
		if x.Err == nil {
			r.begun[m.partition] = &m
			began = append(began, m)
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.fail(&m, app.RefusedFor("move "+m.String(), x.Err, x.ErrMessage, r.choices(&m, x.Err)))
	}
	// Another command that ended before these moves were in progress has removed their names.
	return r.limit.set(ctx, began, nil)
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
func (r *run) progress() {
	for _, m := range r.begun {
		for _, b := range r.adding(m) {
			if !r.missing[b] && r.down([]int32{b}) {
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
