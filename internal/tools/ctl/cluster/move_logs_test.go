package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// twoDirs returns a broker with the log t-0 in /one, and a run of move-logs that empties that. The
// broker completes moves before each description of its directories.
func twoDirs(t *testing.T) (*fakebroker.Cluster, *logMoves, *bytes.Buffer) {
	t.Helper()
	f := fakebroker.NewCluster(t, 1)
	f.Dirs, f.Logs = []string{"/one", "/two"}, []fakebroker.Log{{Topic: "t", Dir: "/one", Size: 10}}
	f.Hook = func(req kmsg.Request) { complete(f, req) }
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Addr()))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	var out bytes.Buffer
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	return f, &logMoves{a: a, adm: kadm.NewClient(cl), rates: moveRates(cl, 1024), broker: 1, from: "/one"}, &out
}

func complete(f *fakebroker.Cluster, req kmsg.Request) {
	if _, reads := req.(*kmsg.DescribeLogDirsRequest); !reads {
		return
	}
	for i := range f.Logs {
		if l := &f.Logs[i]; l.To != "" {
			l.Dir, l.To = l.To, ""
		}
	}
}

// done runs move-logs and returns what it prints.
func (o *logMoves) done(t *testing.T, out *bytes.Buffer) (string, error) {
	t.Helper()
	err := o.run(t.Context())
	must.OK(t, o.a.PrintOutcomes(&app.Outcomes{}))
	if e := o.a.PrintOutcomes(&o.out); err == nil {
		err = e
	}
	return out.String(), err
}

const emptied = "/one has no logs"

// A broker places new logs in the directory with the fewest, which is the one that is emptied. An
// operator who reads that it has no logs replaces the disk.
func TestADirectoryIsEmptiedWhenAFreshReadFindsNoLog(t *testing.T) {
	f, o, out := twoDirs(t)
	times := 0
	f.Hook = func(req kmsg.Request) {
		if _, moves := req.(*kmsg.AlterReplicaLogDirsRequest); moves {
			if times++; times <= 2 {
				f.Logs = append(f.Logs, fakebroker.Log{Topic: "new", Partition: int32(times), Dir: "/one"})
			}
		}
		complete(f, req)
	}
	text, err := o.done(t, out)
	must.OK(t, err)
	f.Do(func() {
		for _, l := range f.Logs {
			if l.Dir != "/two" {
				t.Errorf("%+v, although: %s", l, text)
			}
		}
	})
	if !strings.Contains(text, emptied) || !strings.Contains(text, "1 log was placed in /one meanwhile; moving again") ||
		!strings.Contains(text, "new-2 moved from /one to /two") {
		t.Error(text)
	}
}

// What moves there, has not moved because its directory failed, or cannot be read is not nothing.
func TestADirectoryThatIsNotEmptyIsNotReportedAsEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		hook func(f *fakebroker.Cluster, req kmsg.Request)
		set  func(f *fakebroker.Cluster, o *logMoves)
		want string
	}{
		"another command moves a log there": {func(*fakebroker.Cluster, kmsg.Request) {}, func(f *fakebroker.Cluster, _ *logMoves) {
			f.Logs = []fakebroker.Log{{Topic: "t", Dir: "/two", To: "/one"}}
		}, "t-0 moves from /two to /one, as another command has asked"},
		"the directory fails": {func(f *fakebroker.Cluster, req kmsg.Request) {
			if _, moves := req.(*kmsg.AlterReplicaLogDirsRequest); moves {
				f.Dirs = []string{"/two"}
			}
		}, func(*fakebroker.Cluster, *logMoves) {}, "t-0 has not moved: broker 1 has no log directory /one that works"},
		"nowhere to go": {complete, func(_ *fakebroker.Cluster, o *logMoves) { o.to = "/one" }, "--to /one is the directory from which"},
	} {
		f, o, out := twoDirs(t)
		f.Hook = func(req kmsg.Request) { c.hook(f, req) }
		c.set(f, o)
		text, err := o.done(t, out)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(text, emptied) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

// A log whose topic is deleted while it moves has not moved.
func TestALogThatIsDeletedHasNotMoved(t *testing.T) {
	f, o, out := twoDirs(t)
	f.Hook = func(req kmsg.Request) {
		if _, moves := req.(*kmsg.AlterReplicaLogDirsRequest); moves {
			f.Logs = nil
		}
	}
	text, err := o.done(t, out)
	must.OK(t, err)
	gone := "t-0 is no longer on the broker"
	if !strings.Contains(text, gone) || !strings.Contains(text, emptied) || strings.Contains(text, " moved from") {
		t.Error(text)
	}
}

// Only errors without a text of their own are in the broker's log.
func TestARefusedMoveNamesTheLogThatHasTheReason(t *testing.T) {
	for code, logged := range map[*kerr.Error]bool{
		kerr.KafkaStorageError: true, kerr.UnknownServerError: true, kerr.LogDirNotFound: false, kerr.ClusterAuthorizationFailed: false,
	} {
		f, o, out := twoDirs(t)
		f.Refuse = func(string, int32) int16 { return code.Code }
		_, _ = o.done(t, out)
		err := o.out.Err()
		if !errors.Is(err, code) || strings.Contains(err.Error(), "the broker's log has the reason") != logged {
			t.Errorf("%s: %v", code.Message, err)
		}
	}
}

// A log may have moved before its move is canceled. It is not copied back, and "stays" is the
// broker's answer.
func TestACanceledMoveReportsWhereTheLogStays(t *testing.T) {
	for name, c := range map[string]struct {
		completes, refuses bool
		want, dir          string
	}{
		"in time": {want: "t-0 stays in /one", dir: "/one"},
		"late":    {completes: true, want: "t-0 stays in /two", dir: "/two"},
		"refused": {refuses: true, dir: "/one"},
	} {
		f, o, out := twoDirs(t)
		o.cancel, f.Logs[0].To = true, "/two"
		if c.refuses {
			f.Refuse = func(string, int32) int16 { return kerr.KafkaStorageError.Code }
		}
		times := 0
		f.Hook = func(req kmsg.Request) {
			if _, asks := req.(*kmsg.AlterReplicaLogDirsRequest); !asks {
				return
			}
			if times++; times == 1 && c.completes {
				f.Logs[0].Dir, f.Logs[0].To = "/two", ""
			}
		}
		text, err := o.done(t, out)
		if c.refuses && times != 1 {
			t.Errorf("asked %d times", times)
		}
		if (err != nil) != c.refuses || !strings.Contains(text, c.want) || c.refuses && strings.Contains(text, "stays") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
		f.Do(func() {
			if l := f.Logs[0]; l.Dir != c.dir || (l.To != "") != c.refuses {
				t.Errorf("%s: %+v", name, l)
			}
		})
	}
}

// A cancellation with --throttle removes the rate that an interrupted run of the same command has
// left, and no other.
func TestACancellationRemovesOnlyItsOwnRate(t *testing.T) {
	for before, want := range map[string]string{"1024": "", "7": "7"} {
		f, o, _ := twoDirs(t)
		o.cancel, o.throttle, f.Logs[0].To = true, 1<<10, "/two"
		f.Hook = nil // it is in progress until it is canceled
		f.Configs["broker/1"] = map[string]string{moveRate: before}
		must.OK(t, o.run(t.Context()))
		if got := f.Config(1, moveRate); got != want {
			t.Errorf("the rate %s is %q at the end", before, got)
		}
	}
}

// The rate that an operator has set is in force again at the end, also after a failure. Where moves
// continue under the rate of --throttle, or another command has set one, the command says so.
func TestMoveLogsLeavesNoRateUnsaid(t *testing.T) {
	for name, c := range map[string]struct {
		before, during string
		refuses, hangs bool
		want, says     string
	}{
		"none before":         {},
		"one before":          {before: "7", want: "7", says: moveRate + " is 7 again, as before (broker 1)"},
		"a former run's":      {before: "1024"},
		"refused":             {before: "7", refuses: true, want: "7"},
		"another's meanwhile": {during: "9", want: "9", says: moveRate + " is 9, as another command has set"},
		"interrupted": {before: "7", hangs: true, want: "1024",
			says: "broker 1 copies at most 1024 bytes a second until chronikctl config set"},
	} {
		f, o, out := twoDirs(t)
		o.throttle = 1 << 10
		f.Configs["broker/1"] = map[string]string{moveRate: c.before}
		if c.before == "" {
			f.Configs["broker/1"] = nil
		}
		if c.refuses {
			f.Refuse = func(string, int32) int16 { return kerr.KafkaStorageError.Code }
		}
		ctx, interrupt := context.WithCancel(t.Context())
		requested := false
		f.Hook = func(req kmsg.Request) {
			_, moves := req.(*kmsg.AlterReplicaLogDirsRequest)
			if requested = requested || moves; moves && f.Configs["broker/1"][moveRate] != "1024" {
				t.Errorf("%s: the moves begin with %v", name, f.Configs)
			}
			switch {
			case moves && c.during != "":
				f.Configs["broker/1"][moveRate] = c.during
			case requested && !moves && c.hangs:
				interrupt()
			}
			if !c.hangs {
				complete(f, req)
			}
		}
		err := o.run(ctx)
		interrupt()
		text := out.String() + fmt.Sprint(errors.Join(err, o.out.Err()))
		got, spoke := f.Config(1, moveRate), strings.Contains(text, "bytes a second")
		if got != c.want || !strings.Contains(text, c.says) || c.says == "" && spoke {
			t.Errorf("%s: %q: %s", name, got, text)
		}
	}
}
