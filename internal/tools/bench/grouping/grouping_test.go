package grouping

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker starts a broker whose members send heartbeats often.
func broker(t *testing.T) *chronik.Broker {
	t.Helper()
	return chronik.StartTest(t, chronik.Options{Settings: map[string]string{
		"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "20"}})
}

func target(b *chronik.Broker, partitions int) Target {
	return Target{Brokers: []string{b.Addr()}, Topic: "measured", Partitions: partitions}
}

func admin(t *testing.T, b *chronik.Broker) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// nothingIsLeft checks that groups and topic are deleted.
func nothingIsLeft(t *testing.T, b *chronik.Broker) {
	t.Helper()
	groups, err := admin(t, b).ListGroups(t.Context())
	if err != nil || len(groups) > 0 {
		t.Errorf("groups that are left: %v (%v)", groups.Groups(), err)
	}
	topics, err := admin(t, b).ListTopics(t.Context())
	if err != nil || topics.Has("measured") {
		t.Errorf("the topic is left (%v)", err)
	}
}

func TestHeartbeatsAreCounted(t *testing.T) {
	b := broker(t)
	for _, p := range []Protocol{Classic, Consumer} {
		t.Run(string(p), func(t *testing.T) {
			c := HeartbeatsConfig{
				Target:    target(b, 4),
				Protocol:  p,
				Groups:    3,
				Members:   2,
				Heartbeat: 10 * time.Millisecond,
				Interval:  frame.Interval{Duration: 100 * time.Millisecond},
			}
			r, err := Heartbeats(t.Context(), c)
			for ; err == nil && r.Heartbeats == 0 && c.Duration < time.Minute; r, err = Heartbeats(t.Context(), c) {
				c.Duration *= 4 // the machine is busy
			}
			must.OK(t, err)
			if r.Heartbeats == 0 || r.Latency.Count != r.Heartbeats || len(r.Failures) > 0 || r.Measured.Seconds < c.Duration.Seconds() {
				t.Errorf("%+v", r)
			}
			nothingIsLeft(t, b)
		})
	}
}

func TestRebalancesComeToRest(t *testing.T) {
	b := broker(t)
	for _, p := range []Protocol{Classic, Consumer} {
		t.Run(string(p), func(t *testing.T) {
			r, err := Rebalance(
				t.Context(),
				RebalanceConfig{Target: target(b, 11), Protocol: p, Members: 5, Interval: 20 * time.Millisecond},
			)
			must.OK(t, err)
			for name, s := range map[string]meter.Span{"join": r.Join, "leave": r.Leave, "one more": r.More} {
				if s.Seconds <= 0 {
					t.Errorf("%s took %v", name, s)
				}
			}
			nothingIsLeft(t, b)
		})
	}
}

func TestCommitsAreCountedAndThere(t *testing.T) {
	b := broker(t)
	to := target(b, 4)
	to.Keep = true
	c := CommitsConfig{Target: to, Concurrency: 3, Groups: 2, Each: 2, Interval: frame.Interval{Duration: 100 * time.Millisecond}}
	r, err := Commits(t.Context(), c)
	for ; err == nil && r.Requests == 0 && c.Duration < time.Minute; r, err = Commits(t.Context(), c) {
		c.Duration *= 4
	}
	must.OK(t, err)
	if r.Requests == 0 || r.Offsets != 2*r.Requests || len(r.Failures) > 0 {
		t.Errorf("%+v", r)
	}
	for _, g := range to.groupNames(2) {
		if offsets, err := admin(t, b).FetchOffsets(t.Context(), g); err != nil || len(offsets.Offsets()["measured"]) < 2 {
			t.Errorf("%s: %v (%v)", g, offsets, err)
		}
	}
}

// If the broker ends, the measurement ends with an error and without goroutines.
func TestABrokerThatEnds(t *testing.T) {
	b, err := chronik.OpenMemory(t.Context(), chronik.Options{Settings: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	must.OK(t, err)
	to := target(b, 2)
	to.Keep = true
	done := make(chan error, 1)
	go func() {
		_, err := Heartbeats(t.Context(), HeartbeatsConfig{Target: to, Protocol: Classic, Groups: 1, Members: 2,
			Heartbeat: 5 * time.Millisecond, Interval: frame.Interval{Duration: time.Hour}})
		done <- err
	}()
	awaitState(t, b, to.groupNames(1)[0], "Stable")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("no error")
	}
}

func TestAnInterruptEndsIt(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{Settings: map[string]string{"group.initial.rebalance.delay.ms": "3600000"}})
	to := target(b, 2)
	to.Keep = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Rebalance(ctx, RebalanceConfig{Target: to, Protocol: Classic, Members: 3, Interval: time.Hour})
		done <- err
	}()
	awaitState(t, b, to.groupNames(1)[0], "PreparingRebalance")
	cancel()
	if err := <-done; err == nil {
		t.Error("no error")
	}
}

// awaitState returns when a group is in the given state.
func awaitState(t *testing.T, b *chronik.Broker, group, state string) {
	t.Helper()
	adm := admin(t, b)
	for {
		groups, err := adm.ListGroups(t.Context())
		must.OK(t, err)
		if groups[group].State == state || !pause.Wait(t.Context().Done(), time.Millisecond) {
			return
		}
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	ok := Target{Brokers: []string{"h:1"}, Topic: "t", Partitions: 1}
	short := frame.Interval{Duration: 1}
	for want, c := range map[string]interface{ check() error }{
		"--bootstrap-servers": CommitsConfig{Target: Target{Brokers: []string{"h"}, Topic: "t", Partitions: 1}, Concurrency: 1,
			Groups: 1, Each: 1, Interval: short},
		"--topic": CommitsConfig{Target: Target{Brokers: ok.Brokers, Partitions: 1}, Concurrency: 1, Groups: 1, Each: 1,
			Interval: short},
		"--partitions": CommitsConfig{Target: Target{Brokers: ok.Brokers, Topic: "t"}, Concurrency: 1, Groups: 1, Each: 1,
			Interval: short},
		"--each":        CommitsConfig{Target: ok, Concurrency: 1, Groups: 1, Each: 2, Interval: short},
		"--concurrency": CommitsConfig{Target: ok, Groups: 1, Each: 1, Interval: short},
		"--duration":    CommitsConfig{Target: ok, Concurrency: 1, Groups: 1, Each: 1},
		"--warmup":      CommitsConfig{Target: ok, Concurrency: 1, Groups: 1, Each: 1, Interval: frame.Interval{Warmup: -1, Duration: 1}},
		"--protocol":    RebalanceConfig{Target: ok, Protocol: "x", Members: 2, Interval: 1},
		"--members":     RebalanceConfig{Target: ok, Protocol: Classic, Members: 1, Interval: 1},
		"--heartbeat":   RebalanceConfig{Target: ok, Protocol: Classic, Members: 2},
		"--groups times": HeartbeatsConfig{Target: ok, Protocol: Classic, Groups: 10_000, Members: 10, Heartbeat: 1,
			Interval: short},
	} {
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestARefusedCommitIsNoSuccess(t *testing.T) {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = []kmsg.OffsetCommitResponseTopic{
		{Partitions: []kmsg.OffsetCommitResponseTopicPartition{{}, {ErrorCode: kerr.NotCoordinator.Code}}},
	}
	if err := refused(resp); err == nil || load.FailureName(err) != "NOT_COORDINATOR" || !busy(err) {
		t.Errorf("%v", err)
	}
}

// run runs the command line.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommandsPrintTablesAndJSON(t *testing.T) {
	at := "--bootstrap-servers=" + broker(t).Addr()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"heartbeats", at, "--groups=1", "--members=2", "--heartbeat=10ms", "-d=300ms", "--warmup=0s"},
			[]string{"1 groups of 2 members", "heartbeats/s", "per heartbeat", "unknown"}},
		{[]string{"rebalance", at, "--members=2", "--heartbeat=10ms"}, []string{"2 members on 4 partitions", "one leaves"}},
		{[]string{"commits", at, "-c=1", "--groups=1", "--partitions=1", "-d=300ms", "--warmup=0s"}, []string{"1 connections",
			"offsets/s"}},
	} {
		out, err := run(t, c.args...)
		must.OK(t, err)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	out, err := run(t, "commits", at, "-c=1", "--groups=1", "--partitions=1", "-d=300ms", "--warmup=0s", "--json")
	var r CommitsResult
	if err != nil || json.Unmarshal([]byte(out), &r) != nil || r.Config.Concurrency != 1 || r.Measured.Seconds == 0 {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := run(t, "heartbeats", at, "--protocol=x"); err == nil {
		t.Error("a protocol that there is not")
	}
}

func TestATableNamesFailuresAndCPU(t *testing.T) {
	cpu := 0.5
	r := &HeartbeatsResult{
		Measured:   meter.Span{Seconds: 10, CPUSeconds: &cpu},
		Heartbeats: 1000,
		Failures:   map[string]int64{"NOT_COORDINATOR": 3},
	}
	var out bytes.Buffer
	must.OK(t, r.Table(&out))
	for _, want := range []string{"5.00 %", "500.0 us", "failed 3 times: NOT_COORDINATOR", "0.50 s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
