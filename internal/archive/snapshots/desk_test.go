package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// scripted is what a desk calls. It notes the calls.
type scripted struct {
	calls   []string
	older   bool  // Freeze refuses
	missing error // there are no uploads
	begins  error // of Begin
	fails   error // of Progress
	waits   error // of Applied
}

func (s *scripted) note(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *scripted) Freeze(id replica.FreezeID) ([]replica.Cut, bool) {
	s.note("freeze %v", id)
	return someCuts(), !s.older
}

func (s *scripted) Frozen(id replica.FreezeID) bool {
	s.note("frozen %v", id)
	return id.Attempt == 3
}

func (s *scripted) Thaw(id replica.FreezeID) { s.note("thaw %v", id) }

func (s *scripted) Begin(job writer.Job) error {
	s.note("begin %d %v %v %v", job.Number, job.Probe, job.Base, job.Cuts)
	return s.begins
}

func (s *scripted) Progress(number int64, from int) (writer.Progress, error) {
	s.note("progress %d %d", number, from)
	if s.fails != nil {
		return writer.Progress{}, s.fails
	}
	run := format.Run{Kind: objects.Log, Nonce: objects.Nonce{5}, End: 9, Size: 500, Len: 100, Sum: 7, FirstAborted: -1}
	return writer.Progress{Done: true, Note: "a note", Bytes: 100, TotalBytes: 200, Objects: 3, Next: from + 1,
		Partitions: []format.Partition{{ID: format.ID{Topic: topicA, Partition: 1}, State: format.Kept, Epoch: 2, End: 9,
			Parts: []format.Part{format.Whole(run, 2)}}}}, nil
}

func (s *scripted) Cancel(number int64) { s.note("cancel %d", number) }

func someCuts() []replica.Cut {
	tp := metadata.TopicPartition{Topic: topicA, Partition: 1}
	return []replica.Cut{{TopicPartition: tp, Epoch: 2, Start: 3, End: 9}, {TopicPartition: tp, Offline: true}}
}

// desk returns a desk of broker 1. What it asks other brokers, it answers, and each request and its
// answer is noted in wire. As on the way between brokers, errors are texts.
func (s *scripted) desk(wire *[]string) *Desk {
	var d *Desk
	d = NewDesk(DeskOptions{
		Self: 1, Replicas: s, Image: metadata.Empty,
		Applied: func(_ context.Context, revision int64) error {
			s.note("applied %d", revision)
			return s.waits
		},
		Uploads: func() (Uploads, error) { return s, s.missing },
		Ask: func(ctx context.Context, _ *metadata.Image, broker int32, body []byte) ([]byte, error) {
			p, err := d.Handle(ctx, 1, body)
			if err != nil {
				err = errors.New(err.Error())
			}
			if wire != nil {
				*wire = append(*wire, fmt.Sprintf("broker %d: %s\n%s %v\n", broker, body, p, err))
			}
			return p, err
		},
	})
	return d
}

// asks are the calls of a peer. They return all that it does.
var asks = map[string]func(ctx context.Context, p Peer) (any, error){
	"1 freeze": func(ctx context.Context, p Peer) (any, error) {
		return p.Freeze(ctx, replica.FreezeID{Controller: 2, Attempt: 3}, 40)
	},
	"2 frozen": func(ctx context.Context, p Peer) (any, error) {
		return p.Frozen(ctx, replica.FreezeID{Controller: 2, Attempt: 3})
	},
	"3 melted": func(ctx context.Context, p Peer) (any, error) {
		return p.Frozen(ctx, replica.FreezeID{Controller: 2, Attempt: 4})
	},
	"4 thaw": func(_ context.Context, p Peer) (any, error) {
		p.Thaw(replica.FreezeID{Controller: 2, Attempt: 3})
		return nil, nil
	},
	"5 begin": func(ctx context.Context, p Peer) (any, error) {
		return nil, p.Begin(ctx, writer.Job{Number: 50, Probe: objects.Nonce{5}, Cuts: someCuts(),
			Base:       &format.Previous{Number: 40, Nonce: objects.Nonce{1, 2}},
			Collection: writer.Collection{Generation: metadata.ID{6}, Revision: 30}})
	},
	"6 begin the first": func(ctx context.Context, p Peer) (any, error) { return nil, p.Begin(ctx, writer.Job{Number: 50}) },
	"7 progress":        func(ctx context.Context, p Peer) (any, error) { return p.Progress(ctx, 50, 0) },
	"8 further":         func(ctx context.Context, p Peer) (any, error) { return p.Progress(ctx, 50, 3) },
	"9 cancel": func(_ context.Context, p Peer) (any, error) {
		p.Cancel(50)
		return nil, nil
	},
}

// The JSON between brokers is fixed, and another broker does and answers what this one does.
func TestRequestsAreFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wire []string
		faults := map[string]scripted{
			"":                        {},
			"a later attempt":         {older: true},
			"no store":                {missing: errors.New("archive.url is not set")},
			"an older job":            {begins: fmt.Errorf("%w: 51", writer.ErrOlder)},
			"a broken job":            {fails: errors.New("it is broken")},
			"unknown":                 {fails: fmt.Errorf("%w: 50", writer.ErrUnknown)},
			"the metadata is too old": {waits: context.DeadlineExceeded},
		}
		for _, what := range slices.Sorted(maps.Keys(faults)) {
			fault := faults[what]
			for _, name := range slices.Sorted(maps.Keys(asks)) {
				here, there := fault, fault
				var w *[]string
				if what == "" || what == "unknown" && name == "7 progress" {
					w = &wire
				}
				got, err := asks[name](t.Context(), here.desk(nil).Peer(1))
				got2, err2 := asks[name](t.Context(), there.desk(w).Peer(2))
				synctest.Wait() // for what is not awaited
				if !reflect.DeepEqual(got, got2) || !reflect.DeepEqual(here.calls, there.calls) || (err == nil) != (err2 == nil) {
					t.Errorf("%s, %s:\nhere  %+v %v %q\nthere %+v %v %q", what, name, got, err, here.calls, got2, err2, there.calls)
				}
				if err != nil && (!strings.HasPrefix(err2.Error(), "broker 2: ") || !strings.Contains(err2.Error(), err.Error()) ||
					errors.Is(err, writer.ErrUnknown) != errors.Is(err2, writer.ErrUnknown)) {
					t.Errorf("%s, %s: error %q there, %q here", what, name, err2, err)
				}
			}
		}
		golden.File(t, "testdata/requests.txt", strings.Join(wire, "\n"), "go test ./internal/archive/snapshots")
	})
}

// Answers that no broker gives are errors.
func TestAnswersThatAreNone(t *testing.T) {
	for body, want := range map[string]string{
		"":   "unexpected end of JSON",
		"{}": "an answer without the progress of an upload",
		`{"progress":{"Done":true},"partitions":"AAAA"}`: "partitions",
		`{"progress":5}`: "cannot unmarshal",
	} {
		d := NewDesk(DeskOptions{Self: 1, Image: metadata.Empty,
			Ask: func(context.Context, *metadata.Image, int32, []byte) ([]byte, error) { return []byte(body), nil }})
		if _, err := d.Peer(2).Progress(t.Context(), 1, 0); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "broker 2: ") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Whatever another broker sends, the answer is JSON or an error, and what is not known is refused.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"", "{}", "[]", `{"op":"melt"}`, `{"op":"freeze","id":{"Controller":1,"Attempt":2},"revision":-1}`,
		`{"op":"begin","number":-5,"cuts":[{}]}`, `{"op":"progress","from":-1}`, `{"op":"cancel","new":true}`, `{"op":"thaw","id":7}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &scripted{}
		p, err := s.desk(nil).Handle(t.Context(), 2, body)
		var q request
		bad := json.Unmarshal(body, &q)
		known := map[string]bool{opFreeze: true, opFrozen: true, opThaw: true, opBegin: true, opProgress: true, opCancel: true}[q.Op]
		if (err == nil) != (bad == nil && known) || len(s.calls) > 0 != (err == nil) || err == nil && !json.Valid(p) {
			t.Errorf("%q: %q, %v; calls %q", body, p, err, s.calls)
		}
		if bad == nil && !known && !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("%q: %v", body, err)
		}
	})
}
