package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

// An operator who interrupts chronikctl interrupts the command that restarts a broker, which may
// have stopped it. It is not killed.
func TestAnInterruptedCommandEndsByItself(t *testing.T) {
	dir := t.TempDir()
	begun, ended := filepath.Join(dir, "begun"), filepath.Join(dir, "ended")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
			time.Sleep(time.Millisecond)
		}
		interrupt()
	}()
	err := runCommand(ctx, app.New("v1", app.Streams{In: strings.NewReader("")}), []string{"sh", "-c",
		fmt.Sprintf("trap 'sleep 0.1; >%s; exit' INT; >%s; while :; do sleep 0.01; done", ended, begun)})
	if _, missing := os.Stat(ended); !errors.Is(err, errInterrupted) || missing != nil {
		t.Errorf("%v; %v", err, missing)
	}
}

// A command may leave a process in the background, such as a broker, which keeps the output open.
func TestACommandMayLeaveAProcess(t *testing.T) {
	var errs bytes.Buffer
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Err: &errs})
	must.OK(t, runCommand(t.Context(), a, []string{"sh", "-c", "sleep 30 & echo $!"}))
	left := strings.TrimSpace(errs.String())
	must.OK(t, runCommand(t.Context(), a, []string{"kill", left}))
	if err := runCommand(t.Context(), a, []string{"false"}); err == nil {
		t.Error("a command that fails is right")
	}
}

// A broker has restarted when no broker reports more of it than before: not that it starts, is
// fenced, or is not heard. If nothing is known from before, only these count.
func TestWhatBrokersReportOfARestartedOne(t *testing.T) {
	all := func(r *health.Report) verdicts { return verdicts{1: reported(r, 2)} }
	heard := health.Other{Broker: 2, Version: "v", Current: true}
	before := all(&health.Report{Broker: 1, Brokers: []health.Other{heard}, Findings: []health.Finding{
		{Broker: 2, Check: "mount", Severity: health.Warn, Subject: "log directory /d"}}})
	finding := func(broker int32, check string, severity health.Severity, subject string) *health.Report {
		return &health.Report{Broker: 1, Brokers: []health.Other{heard},
			Findings: []health.Finding{{Broker: broker, Check: check, Severity: severity, Subject: subject, Problem: "why"}}}
	}
	const unheard = "broker 1, report of broker 2: broker 1 has no report yet"
	stale, phase := heard, heard
	stale.Current, phase.Phase = false, "recovering logs"
	for name, x := range map[string]struct {
		now  *health.Report
		want string
	}{
		"as before":         {finding(2, "mount", health.Warn, "log directory /d"), ""},
		"better":            {finding(2, "mount", health.Note, "log directory /d"), ""},
		"worse":             {finding(2, "mount", health.Bad, "log directory /d"), "broker 2, log directory /d: why"},
		"of another":        {finding(3, "mount", health.Bad, "log directory /d"), ""},
		"a further note":    {finding(2, "access", health.Note, "users"), ""},
		"it starts":         {finding(health.NoBroker, health.CheckBrokers, health.Warn, "broker 2"), "broker 2: why"},
		"another starts":    {finding(health.NoBroker, health.CheckBrokers, health.Warn, "broker 12"), ""},
		"it is not heard":   {finding(1, health.CheckReports, health.Warn, "report of broker 2"), "broker 1, report of broker 2: why"},
		"a former report":   {&health.Report{Broker: 1, Brokers: []health.Other{stale}}, unheard},
		"it does not serve": {&health.Report{Broker: 1, Brokers: []health.Other{phase}}, unheard},
		"an older version":  {&health.Report{Broker: 1, Brokers: []health.Other{{Broker: 2}}}, ""},
	} {
		if got := all(x.now).worse(before); got != x.want && (x.want == "" || !strings.HasPrefix(got, x.want)) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	if got := (verdicts{}).worse(before); got != "broker 1 does not report its health" {
		t.Errorf("without an answer: %q", got)
	}
	fenced := all(finding(health.NoBroker, health.CheckBrokers, health.Bad, "broker 2"))
	answered := verdicts{1: nil} // with --end
	if fenced.worse(fenced) != "" || fenced.serious().worse(answered) == "" {
		t.Error("--end accepts a broker that is fenced")
	}
	if all(finding(2, "certificate", health.Bad, "listener")).serious().worse(answered) == "" {
		t.Error("--end accepts a broker that clients refuse")
	}
	// Others may hear only after a start what was so before.
	if got := all(finding(2, "space", health.Warn, "disk of /d")).serious().worse(answered); got != "" {
		t.Errorf("--end waits for more than the start: %s", got)
	}
}

// Leaderships take their time to move. A broker that dies meanwhile, or is stopped by another
// operator, would be the second one that is down.
func TestABrokerIsStoppedOnlyIfAllReplicasAreInSyncRightBefore(t *testing.T) {
	f := fakebroker.NewCluster(t, 1, 2, 3)
	f.Dirs = []string{"/one"}
	f.Partitions["t"] = []fakebroker.Partition{{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}}
	f.Tagged = func(tags *kmsg.Tags) { tags.Set(view.StartTag, view.Start{Epoch: 1}.Append(nil)) }
	asked := 0
	f.Hook = func(req kmsg.Request) {
		if _, is := req.(*kmsg.MetadataRequest); is && len(f.Partitions["t"][0].ISR) == 2 {
			if asked++; asked == 3 { // broker 3 is back
				f.Partitions["t"][0].ISR = []int32{1, 2, 3}
			}
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Addr()), kgo.MetadataMinAge(app.FreshAge))
	must.OK(t, err)
	defer cl.Close()
	var text bytes.Buffer
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Err: &text})
	x := &maintenance{a: a, adm: kadm.NewClient(cl), cl: cl, id: 2, wait: time.Minute}
	times := 0
	_, err = x.ready(t.Context(), func() error {
		if times++; times == 1 {
			f.Do(func() { f.Partitions["t"][0].ISR = []int32{1, 2} })
			time.Sleep(2 * app.FreshAge)
		}
		return nil
	})
	must.OK(t, err)
	f.Do(func() {
		if len(f.Partitions["t"][0].ISR) != 3 || times != 2 {
			t.Errorf("ready with %v, prepared %d times", f.Partitions["t"][0].ISR, times)
		}
	})
	if want := "broker 2 is not stopped yet: replicas of t-0 are not in sync"; !strings.Contains(text.String(), want) {
		t.Error(text.String())
	}
}
