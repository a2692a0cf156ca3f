package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// answers is a broker that answers requests for its report.
type answers func(ctx context.Context) ([]byte, error)

func (a answers) Call(ctx context.Context, method uint16, _ []byte) ([]byte, error) {
	if method != methodHealth {
		return nil, errors.New("another method")
	}
	return a(ctx)
}

// askers returns a Cluster that only asks for reports.
func askers(t *testing.T) *Cluster {
	c := &Cluster{o: Options{Node: 1, Log: zap.NewNop()}, others: others{heard: map[int32]health.Heard{}, asked: map[int32]bool{}}}
	c.ctx = t.Context()
	return c
}

// What a broker answers decides what is known of it: a report, that its version has none, or
// nothing new.
func TestAnswersToARequestForAReport(t *testing.T) {
	own, err := (&health.Report{Broker: 3, Version: "v", Findings: []health.Finding{{Check: "space"}}}).Encode(health.MaxBytes)
	must.OK(t, err)
	for _, x := range []struct {
		name      string
		answer    []byte
		err       error
		has, mute bool
		keeps     bool
	}{
		{"a report", own, nil, true, false, false},
		{"an older version that does not lead", nil, &link.RemoteError{Code: link.FirstCode, Text: "not the leader"}, false, true, false},
		{"an older version that leads", nil, &link.RemoteError{Code: link.CodeFailed, Text: "unknown method 36"}, false, true, false},
		{"a busy broker", nil, &link.RemoteError{Code: link.CodeBusy}, false, false, true},
		{"a broken connection", nil, link.ErrNoAnswer, false, false, true},
		{"no report", []byte("x"), nil, false, false, true},
		{"an endless one", []byte(strings.Repeat("x", health.MaxBytes+1)), nil, false, false, true},
	} {
		c := askers(t)
		c.others.heard[3] = health.Heard{Broker: 3, Report: &health.Report{Version: "former"}}
		c.others.begin(3)
		c.others.end(3, c.askReport(3, answers(func(context.Context) ([]byte, error) { return x.answer, x.err })))
		h := c.Reports()[0]
		if former := h.Report != nil && h.Report.Version == "former"; former != x.keeps {
			t.Errorf("%s: keeps the former report: %v", x.name, former)
		}
		if h.Mute != x.mute || x.has && (h.Report == nil || h.Report.Version != "v" || h.At.IsZero()) {
			t.Errorf("%s: %+v", x.name, h)
		}
	}
}

// A report that says the same again is not sent again, and counts as new.
func TestAReportThatSaysTheSameIsNotSentAgain(t *testing.T) {
	report := health.Report{Broker: 3, Version: `"at":"`, At: time.Now(), Findings: []health.Finding{{Check: "space"}},
		Checks: []health.Examined{{Name: "space", Saw: []string{"9 GiB are free"}}}}
	other := &Cluster{o: Options{Health: func(context.Context) *health.Report { return &report }}}
	c := askers(t)
	sent := 0
	ask := func() health.Heard {
		c.others.begin(3)
		c.others.end(3, c.askReport(3, called(func(body []byte) ([]byte, error) {
			p, err := other.answerHealth(t.Context(), body)
			sent = len(p)
			return p, err
		})))
		return c.Reports()[0]
	}
	first := ask()
	full := sent
	report.At = report.At.Add(time.Hour)
	report.Checks[0].Saw = []string{"8 GiB are free"}
	again := ask()
	if sent >= full/2 || again.Report.Version != report.Version || len(again.Report.Findings) != 1 || !again.At.After(first.At) ||
		again.Report.At.Sub(first.Report.At) != again.At.Sub(first.At) {
		t.Errorf("%d of %d bytes: %+v", sent, full, again.Report)
	}
	report.Findings = nil
	if next := ask(); len(next.Report.Findings) != 0 {
		t.Errorf("it says something else: %+v", next.Report)
	}
	if again.Report.Findings[0].Check != "space" {
		t.Error("what was heard before has changed")
	}
}

// called is a broker that answers requests by their bodies.
type called func(body []byte) ([]byte, error)

func (c called) Call(_ context.Context, _ uint16, body []byte) ([]byte, error) { return c(body) }

// A broker that hangs is not asked again before its time is over, and a report is forgotten when it
// is old.
func TestABrokerThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := askers(t)
		hangs := answers(func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		if !c.others.begin(3) || !c.others.begin(2) {
			t.Fatal("brokers that were not asked yet")
		}
		done := make(chan struct{})
		begun := time.Now()
		go func() { c.others.end(3, c.askReport(3, hangs)); close(done) }()
		synctest.Wait()
		c.others.end(2, &health.Heard{Broker: 2, At: begun})
		if c.others.begin(3) || !c.others.begin(2) {
			t.Error("one that hangs is asked again, or keeps another from being asked")
		}
		<-done
		if took := time.Since(begun); took != healthTime || !c.others.begin(3) {
			t.Errorf("it took %v", took)
		}
		c.others.forget(begun.Add(forgetAfter - 1))
		if len(c.Reports()) != 1 {
			t.Error("a report was forgotten early")
		}
		c.others.forget(begun.Add(forgetAfter))
		if len(c.Reports()) != 0 {
			t.Error("an old report was not forgotten")
		}
	})
}

// A report is about the process that made it. A former one's "draining" is not shown of the broker
// that has started since; neither is one that was asked for before.
func TestAReportEndsWithItsProcess(t *testing.T) {
	image := func(epoch int64, state metadata.Liveness) *metadata.Image {
		b := metadata.Broker{Member: 33, Incarnation: [16]byte{byte(epoch)}}
		s := metadata.BrokerState{Liveness: state, Incarnation: b.Incarnation}
		img, err := metadata.Load([]metadata.KV{{Key: metadata.BrokerKey(3), Value: b.Encode(), ModRevision: epoch},
			{Key: metadata.LivenessKey(3), Value: s.Encode(), ModRevision: epoch}}, epoch)
		must.OK(t, err)
		return img
	}
	report := &health.Heard{Broker: 3, Report: &health.Report{Phase: "draining"}}
	for _, x := range []struct {
		name       string
		prev, next *metadata.Image
		keeps      bool
	}{
		{"nothing changed", image(1, metadata.Active), image(1, metadata.Active), true},
		{"it drains", image(1, metadata.Active), image(1, metadata.Draining), true},
		{"it is fenced", image(1, metadata.Active), image(1, metadata.Fenced), true},
		{"it has started", image(1, metadata.Fenced), image(2, metadata.Starting), false},
		{"it is active", image(2, metadata.Starting), image(2, metadata.Active), false},
	} {
		c := askers(t)
		c.others.heard[3] = *report
		c.others.changed(x.prev, x.next)
		if kept := len(c.Reports()) == 1; kept != x.keeps {
			t.Errorf("%s: the report is kept: %v", x.name, kept)
		}
		c.others.begin(3)
		c.others.changed(x.prev, x.next)
		if c.others.begin(3) {
			t.Errorf("%s: a second request is sent", x.name)
		}
		c.others.end(3, report)
		if kept := len(c.Reports()) == 1; kept != x.keeps {
			t.Errorf("%s: the answer is kept: %v", x.name, kept)
		}
		if !c.others.begin(3) {
			t.Errorf("%s: no further request is sent", x.name)
		}
	}
}

// The voters to which this broker has no connection are named for people, and the brokers among
// them are known to programs.
func TestVotersThatAreNotConnected(t *testing.T) {
	var keys []metadata.KV
	for id := range int32(3) {
		b := metadata.Broker{Member: uint64(10 + id)}
		s := metadata.BrokerState{Liveness: metadata.Active, Incarnation: b.Incarnation}
		keys = append(keys, metadata.KV{Key: metadata.BrokerKey(id), Value: b.Encode(), ModRevision: 1},
			metadata.KV{Key: metadata.LivenessKey(id), Value: s.Encode(), ModRevision: 1})
	}
	img, err := metadata.Load(keys, 1)
	must.OK(t, err)
	c, q := &Cluster{book: newBook(nil, func() uint64 { return 11 }, nil)}, view.Quorum{}
	c.self.ID = 11
	c.describeVoters(img, []raftstore.MemberStatus{{Member: 10, Voter: true}, {Member: 11, Voter: true}, {Member: 12},
		{Member: 99, Voter: true}}, &q)
	if q.Voters != 3 || len(q.Unreachable) != 2 || len(q.Away) != 1 || q.Away[0] != 0 {
		t.Errorf("%+v", q)
	}
}
