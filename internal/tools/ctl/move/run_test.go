package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// fresh is how old metadata may be that the client answers with.
const fresh = 10 * time.Millisecond

// commands are runs of plans against brokers that a test makes up.
type commands struct {
	*fakebroker.Cluster
	t   *testing.T
	cl  *kgo.Client
	adm *kadm.Client
	out bytes.Buffer
}

// newCommands returns brokers with a topic t of partitions with these replicas.
func newCommands(t *testing.T, brokers []int32, replicas ...[]int32) *commands {
	t.Helper()
	c := &commands{Cluster: fakebroker.NewCluster(t, brokers...), t: t}
	c.Dirs = []string{"/one"}
	for _, r := range replicas {
		c.Partitions["t"] = append(c.Partitions["t"], fakebroker.Partition{Replicas: r, ISR: r})
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addr()), kgo.MetadataMinAge(fresh), kgo.RequestRetries(1))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	c.cl, c.adm = cl, kadm.NewClient(cl)
	return c
}

// run carries out a plan, one copy at a time, and returns what it prints and the error.
func (c *commands) run(ctx context.Context, o Options, plan func(p *Plan) error) (string, error) {
	c.t.Helper()
	p, _, err := Read(ctx, c.adm)
	must.OK(c.t, err)
	must.OK(c.t, plan(p))
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Out: &c.out, Err: &c.out})
	var out app.Outcomes
	r := p.newRun(a, c.adm, c.cl, o, &out)
	r.gap = 2 * fresh
	err = r.do(ctx)
	err = errors.Join(err, a.PrintOutcomes(&out))
	return c.out.String(), err
}

// replicas returns those of the topic.
func (c *commands) replicas() (list string) {
	c.Do(func() {
		for _, p := range c.Partitions["t"] {
			list += fmt.Sprint(p.Replicas)
		}
	})
	return list
}

// moving returns the first partition that is being moved, -1 if there is none.
func moving(c *fakebroker.Cluster) int {
	return slices.IndexFunc(c.Partitions["t"], func(p fakebroker.Partition) bool { return len(p.Adding) > 0 })
}

// set returns a plan of the replicas of the first partitions of t.
func set(replicas ...[]int32) func(p *Plan) error {
	return func(p *Plan) error {
		var errs []error
		for n, r := range replicas {
			errs = append(errs, p.Set("t", int32(n), r))
		}
		return errors.Join(errs...)
	}
}

// A plan waits for its turn, perhaps for hours. What another command has changed meanwhile is not
// undone: the partition would have fewer replicas, unasked.
func TestAMoveDoesNotUndoWhatAnotherCommandHasChanged(t *testing.T) {
	c := newCommands(t, []int32{1, 2, 3, 4}, []int32{1, 2}, []int32{1, 2}, []int32{1, 2}, []int32{1, 2})
	c.Copies = true
	c.Hook = func(req kmsg.Request) {
		if _, asks := req.(*kmsg.ListPartitionReassignmentsRequest); !asks {
			return
		}
		all := c.Partitions["t"]
		switch n := moving(c.Cluster); n {
		case -1:
		case 0: // meanwhile others raise a factor, change the order, and make the same move
			all[1] = fakebroker.Partition{Replicas: []int32{1, 2, 4}, ISR: []int32{1, 2, 4}}
			all[2] = fakebroker.Partition{Replicas: []int32{2, 1}, ISR: []int32{2, 1}}
			all[3] = fakebroker.Partition{Replicas: []int32{1, 3}, ISR: []int32{1, 3}}
			all[0].Complete()
		default:
			all[n].Complete()
		}
	}
	text, err := c.run(t.Context(), Once(), set([]int32{1, 3}, []int32{1, 3}, []int32{1, 3}, []int32{1, 3}))
	const want = "move t-1: its replicas are 1,2,4 now, not 1,2 as when the command began"
	got := c.replicas()
	if got != "[1 3][1 2 4][1 3][1 3]" || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(text, "moved 3 partitions") {
		t.Errorf("%s: %v: %s", got, err, text)
	}
}

// Between the last reading and the request the controller compares the number of replicas, except
// where the move changes it, or one in progress does.
func TestAMoveHasTheControllerCompareTheNumberOfReplicas(t *testing.T) {
	c := newCommands(t, []int32{1, 2, 3}, []int32{1, 2}, []int32{1, 2}, []int32{1, 2})
	c.Partitions["t"][2] = fakebroker.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Adding: []int32{2}}
	_, err := c.run(t.Context(), Options{atATime: 9}, set([]int32{1, 3}, []int32{1, 2, 3}, []int32{1, 3}))
	must.OK(t, err)
	got := map[int32]bool{}
	c.Do(func() {
		for _, req := range c.Asked {
			if req, ok := req.(*kmsg.AlterPartitionAssignmentsRequest); ok {
				for _, p := range req.Topics[0].Partitions {
					got[p.Partition] = req.AllowReplicationFactorChange
				}
			}
		}
	})
	if len(got) != 3 || got[0] || !got[1] || !got[2] {
		t.Errorf("the number may change: %v", got)
	}
}

// A broker that dies does not hold back the copies to others, however few there may be at a time.
// The command says for which broker it waits, also where another command has begun the move.
func TestABrokerThatDiesDoesNotHoldBackOtherMoves(t *testing.T) {
	for name, c := range map[string]struct {
		had  fakebroker.Partition
		plan [][]int32
		want string
	}{
		"its copy has begun": {fakebroker.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}}, [][]int32{{1, 4}, {1, 3}, {1, 4}, {1, 3}},
			"[1 4 2][1 3][1 2][1 3]"},
		"another command began it": {fakebroker.Partition{Replicas: []int32{1, 2, 4}, ISR: []int32{1, 2}, Adding: []int32{4}},
			[][]int32{{1, 2, 4}, {1, 3}, {1, 4}, {1, 3}}, "[1 2 4][1 3][1 2][1 3]"},
	} {
		x := newCommands(t, []int32{1, 2, 3, 4}, []int32{1, 2}, []int32{1, 2}, []int32{1, 2}, []int32{1, 2})
		x.Partitions["t"][0], x.Copies = c.had, true
		ctx, stop := context.WithCancel(t.Context())
		times := 0
		x.Hook = func(req kmsg.Request) {
			if _, asks := req.(*kmsg.MetadataRequest); asks && len(x.Partitions["t"][0].Adding) > 0 {
				x.Active = []int32{1, 2, 3}
			}
			if _, asks := req.(*kmsg.ListPartitionReassignmentsRequest); !asks {
				return
			}
			for i := range x.Partitions["t"] {
				if p := &x.Partitions["t"][i]; slices.Contains(p.Adding, 3) {
					p.Complete()
				}
			}
			if all := x.Partitions["t"]; slices.Contains(all[1].ISR, 3) && slices.Contains(all[3].ISR, 3) {
				times += 10 // what should still wait may begin
			}
			if times++; times > 100 {
				stop()
			}
		}
		text, err := x.run(ctx, Once(), set(c.plan...))
		stop()
		if got := x.replicas(); got != c.want || err == nil || !strings.Contains(text, "broker 4 is not active: what moves to it waits") {
			t.Errorf("%s: %s: %v: %s", name, got, err, text)
		}
	}
}

// A rate stays on no broker, also not on one that is not active when the moves end. The names that
// another command removes, right before the moves are in progress, are there again.
func TestThrottlesOutliveOtherCommandsAndNotTheMoves(t *testing.T) {
	for name, refuses := range map[string]bool{"complete": false, "refused": true} {
		c := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
		c.Copies = true
		requested, named := false, ""
		c.Hook = func(req kmsg.Request) {
			switch req.(type) {
			case *kmsg.AlterPartitionAssignmentsRequest:
				requested = true
				c.Configs["topic/t"], c.Configs["broker/1"] = nil, nil // release of another command
			case *kmsg.MetadataRequest:
				if !requested || len(c.Partitions["t"][0].Adding) == 0 || c.Configs["broker/1"][leaderRate] == "" {
					return
				}
				named = c.Configs["topic/t"][followerReplicas]
				c.Active, c.Fenced = []int32{1, 2}, []int32{3}
				c.Partitions["t"][0].Complete()
			}
		}
		if refuses {
			c.Refuse = func(string, int32) int16 { return kerr.UnknownServerError.Code }
		}
		_, err := c.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		if !refuses && (err != nil || named != "0:3") {
			t.Errorf("%s: %v; %q are named while they move", name, err, named)
		}
		for b := range int32(3) {
			if got := c.Config(b+1, leaderRate) + c.Config(b+1, followerRate); got != "" {
				t.Errorf("%s: broker %d keeps the rate %s", name, b+1, got)
			}
		}
		c.Do(func() {
			if got := c.Configs["topic/t"][followerReplicas]; got != "" {
				t.Errorf("%s: named at the end: %s", name, got)
			}
		})
	}
}

// Names that could not be read at the end may be left: the command fails, and its rates are gone. A
// topic that was deleted has none.
func TestNamesThatAreNotReadAreNoSuccess(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.UnknownServerError, kerr.UnknownTopicOrPartition} {
		c := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
		c.Copies = true
		c.Hook = func(req kmsg.Request) {
			if _, moves := req.(*kmsg.AlterPartitionAssignmentsRequest); moves {
				c.Unread = code.Code
			}
			if _, asks := req.(*kmsg.MetadataRequest); asks && len(c.Partitions["t"][0].Adding) > 0 {
				c.Partitions["t"][0].Complete()
			}
		}
		_, err := c.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		if gone := code == kerr.UnknownTopicOrPartition; (err == nil) != gone || !gone && !errors.Is(err, code) {
			t.Errorf("%s: %v", code.Message, err)
		}
		for b := range int32(3) {
			if got := c.Config(b+1, leaderRate) + c.Config(b+1, followerRate); got != "" {
				t.Errorf("%s: broker %d has the rate %s after %v", code.Message, b+1, got, err)
			}
		}
	}
}

// A move without limits has succeeded, whatever names a former run has left.
func TestAMoveWithoutLimitsNeedsNoNames(t *testing.T) {
	c := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
	c.Copies = true
	c.Hook = func(req kmsg.Request) {
		if _, moves := req.(*kmsg.AlterPartitionAssignmentsRequest); moves {
			c.Unread = kerr.TopicAuthorizationFailed.Code
		}
		if _, asks := req.(*kmsg.MetadataRequest); asks && len(c.Partitions["t"][0].Adding) > 0 {
			c.Partitions["t"][0].Complete()
		}
	}
	said, err := c.run(t.Context(), Options{atATime: 1}, set([]int32{1, 3}))
	if err != nil || !strings.Contains(said, "may have left limits") {
		t.Errorf("%v; it says %q", err, said)
	}
}

// The rates that an operator has set count again at the end, on each broker its own. What another
// command sets meanwhile stays. Rates of a run that was interrupted are not those of an operator.
func TestTheRatesOfBeforeCountAgain(t *testing.T) {
	for name, c := range map[string]struct {
		before, during, left string // left: names of replicas in the topic
		want, says           string
	}{
		"none":          {says: "moved"},
		"an operator's": {before: "7", want: "7", says: leaderRate + " is 7 again, as before (broker 1,2)"},
		"another command's": {before: "7", during: "9", want: "9",
			says: leaderRate + " is 9, as another command has set it (broker 1)"},
		"of the same command":   {before: "1024", says: "moved"},
		"of an interrupted one": {before: "5", left: "3:3", says: "moved"},
	} {
		x := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
		x.Copies = true
		for _, at := range []string{"broker/1", "broker/2"} {
			x.Configs[at] = map[string]string{}
			if c.before != "" {
				x.Configs[at][leaderRate] = c.before
			}
		}
		x.Configs["topic/t"] = map[string]string{followerReplicas: c.left}
		requested, during := false, ""
		x.Hook = func(req kmsg.Request) {
			switch req.(type) {
			case *kmsg.AlterPartitionAssignmentsRequest:
				requested = true
			case *kmsg.MetadataRequest:
				if !requested || len(x.Partitions["t"][0].Adding) == 0 {
					return
				}
				during = x.Configs["broker/1"][leaderRate] + x.Configs["broker/3"][followerRate]
				if c.during != "" {
					x.Configs["broker/1"][leaderRate] = c.during
				}
				x.Partitions["t"][0].Complete()
			}
		}
		text, err := x.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		if err != nil || during != "10241024" || !strings.Contains(text, c.says) {
			t.Errorf("%s: %v; %q while it moves: %s", name, err, during, text)
		}
		if got, other := x.Config(1, leaderRate), x.Config(3, leaderRate)+x.Config(1, followerRate); got != c.want || other != "" {
			t.Errorf("%s: the rate is %q at the end, others %q", name, got, other)
		}
	}
}

// Rates that stay for moves of other commands, or after an error, are reported.
func TestThrottlesThatStayAreReported(t *testing.T) {
	for name, fails := range map[string]bool{"others move": false, "an error": true} {
		c := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
		c.Copies = true
		requested := false
		c.Configs["broker/2"] = map[string]string{followerRate: "7"}
		c.Hook = func(req kmsg.Request) {
			_, asks := req.(*kmsg.AlterPartitionAssignmentsRequest)
			requested = requested || asks
			if asks { // so does another command
				c.Partitions["u"] = []fakebroker.Partition{{Replicas: []int32{1, 2}, ISR: []int32{1}, Adding: []int32{2}}}
			}
			if _, reads := req.(*kmsg.MetadataRequest); reads && requested && !fails {
				c.Partitions["t"][0].Complete()
			}
			c.Down = requested && fails && !asks
		}
		text, err := c.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		want := "stay on the brokers for other moves in progress"
		if fails {
			want = "--throttle stays in force for the moves in progress"
		}
		restore := "the rates of before count again with chronikctl config set broker 2 " + followerRate + "=7"
		if text += fmt.Sprint(err); !strings.Contains(text, want) || !strings.Contains(text, restore) || (err != nil) != fails {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A run changes rates of brokers only whose former ones it has read: nothing could restore those of
// the others. It names these brokers, and bounds their copies once it can read the rates.
func TestOnlyRatesThatWereReadAreChanged(t *testing.T) {
	for name, c := range map[string]struct {
		fenced, mute []int32
		later        bool // it can be read when the second move begins
	}{
		"fenced":                         {fenced: []int32{4}},
		"fenced, later active":           {fenced: []int32{4}, later: true},
		"unreachable":                    {mute: []int32{4}},
		"unreachable, as well as fenced": {mute: []int32{4}, fenced: []int32{5}},
	} {
		x := newCommands(t, []int32{1, 2, 3}, []int32{1, 2}, []int32{1, 2})
		x.Copies, x.Fenced, x.Mute = true, c.fenced, c.mute
		x.Active = append(x.Active, c.mute...)
		for _, b := range slices.Concat(c.fenced, c.mute) {
			x.Configs[fmt.Sprintf("broker/%d", b)] = map[string]string{leaderRate: "7"}
		}
		during := map[string]bool{}
		x.Hook = func(req kmsg.Request) {
			if _, reads := req.(*kmsg.MetadataRequest); !reads || moving(x.Cluster) < 0 {
				return
			}
			during[x.Configs["broker/4"][leaderRate]] = true
			if n := moving(x.Cluster); x.Configs["topic/t"][followerReplicas] != "" {
				x.Partitions["t"][n].Complete()
				if c.later {
					x.Active, x.Fenced = []int32{1, 2, 3, 4}, nil
				}
			}
		}
		text, err := x.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}, []int32{1, 3}))
		if err != nil || !during["7"] || during["1024"] != c.later {
			t.Errorf("%s: %v; the rates while it moves: %v: %s", name, err, during, text)
		}
		for _, b := range slices.Concat(c.fenced, c.mute) {
			says := fmt.Sprintf("chronikctl config set broker %d %s=1024 %s=1024", b, leaderRate, followerRate)
			ends := fmt.Sprintf("chronikctl config unset broker %d %s %s", b, leaderRate, followerRate)
			if got := x.Config(b, leaderRate); got != "7" || !strings.Contains(text, says) || !strings.Contains(text, ends) {
				t.Errorf("%s: the rate of broker %d is %q: %s", name, b, got, text)
			}
		}
		if n := strings.Count(text, "which cannot be read"); n != 1 {
			t.Errorf("%s: said %d times: %s", name, n, text)
		}
		if got := x.Config(3, leaderRate) + x.Config(3, followerRate); got != "" {
			t.Errorf("%s: broker 3 has the rate %s at the end", name, got)
		}
	}
}

// A command with nothing to move changes no rate, even one that equals that of --throttle. What an
// interrupted run of the same command has left is removed, but no other rate, and none of a broker
// that it cannot read.
func TestNothingToMoveChangesNoRate(t *testing.T) {
	for name, c := range map[string]struct {
		left             string
		throttle         int64
		one, two, fenced string // the rates at the end, of 1024, 7, and 1024
		says             string
	}{
		"nothing left": {throttle: 1 << 10, one: "1024", two: "7", fenced: "1024"},
		"an interrupted run": {left: "0:3", throttle: 1 << 10, two: "7", fenced: "1024",
			says: "chronikctl config unset broker 3 " + leaderRate},
		"of another command": {left: "0:3", one: "1024", two: "7", fenced: "1024",
			says: "chronikctl config unset broker 2 " + leaderRate},
	} {
		x := newCommands(t, []int32{1, 2}, []int32{1, 2})
		x.Fenced = []int32{3}
		for b, rate := range map[string]string{"broker/1": "1024", "broker/2": "7", "broker/3": "1024"} {
			x.Configs[b] = map[string]string{leaderRate: rate}
		}
		x.Configs["topic/t"] = map[string]string{followerReplicas: c.left}
		text, err := x.run(t.Context(), Options{atATime: 1, throttle: c.throttle}, set([]int32{1, 2}))
		if err != nil || !strings.Contains(text, c.says) || c.says == "" && strings.Contains(text, "rate") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
		for b, want := range map[int32]string{1: c.one, 2: c.two, 3: c.fenced} {
			if got := x.Config(b, leaderRate); got != want {
				t.Errorf("%s: the rate of broker %d is %q, not %q: %s", name, b, got, want, text)
			}
		}
		x.Do(func() {
			if got := x.Configs["topic/t"][followerReplicas]; c.left != "" && got != "" {
				t.Errorf("%s: named at the end: %s", name, got)
			}
		})
	}
}

// A broker that dies while the moves run has the rates of before at the end. If these cannot be
// restored, the error names them, and the same command finds what is left.
func TestRatesOfBeforeAfterFailures(t *testing.T) {
	for name, fails := range map[string]bool{"a broker dies": false, "no change is permitted": true} {
		x := newCommands(t, []int32{1, 2, 3}, []int32{1, 2})
		x.Copies = true
		x.Configs["broker/1"] = map[string]string{leaderRate: "7"}
		x.Hook = func(req kmsg.Request) {
			if _, reads := req.(*kmsg.MetadataRequest); !reads || moving(x.Cluster) < 0 || x.Configs["topic/t"][followerReplicas] == "" {
				return
			}
			x.Partitions["t"][0].Complete()
			x.Mute, x.Denied = []int32{1}, fails
		}
		text, err := x.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		want := "the rates of before count again with chronikctl config set broker 1 " + leaderRate + "=7"
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
		if !fails {
			if got := x.Config(1, leaderRate) + x.Config(2, leaderRate); got != "7" {
				t.Errorf("%s: the rates are %q at the end", name, got)
			}
			continue
		}
		x.Do(func() { x.Mute, x.Denied = nil, false })
		text, err = x.run(t.Context(), Options{atATime: 1, throttle: 1 << 10}, set([]int32{1, 3}))
		if got := x.Config(1, leaderRate) + x.Config(2, leaderRate); err != nil || got != "" {
			t.Errorf("%s: %v: the rates are %q after the same command: %s", name, err, got, text)
		}
	}
}
