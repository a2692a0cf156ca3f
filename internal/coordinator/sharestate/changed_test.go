package sharestate

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Leaders are notified of what others do with their states, and of nothing else.
func TestChangesThatLeadersMustKnow(t *testing.T) {
	s, clock := New(config()), int64(1000)
	send := func(event any) (answer any, sent []any) {
		clock++
		var out coordinator.Effects
		s.Handle((&desk{clock: clock}).time(), 1, event, &out)
		for _, r := range out.Replies {
			answer = r.Response
		}
		return answer, out.Sends
	}
	send(TopicsChanged{Topics: topics{keyOf(0).Topic: 0}})
	k, first, second := keyOf(0), Identity{1, 1002}, Identity{2, 1010}
	marked := Writing{Key: k, ID: first, Marks: []window.Mark{mark(5, 6, window.Acknowledged, 1)}}
	for i, c := range []struct {
		event any
		want  []any
	}{
		{Initialize{{k, 1, 0, 0}}, []any{Changed{k, first, -1}}},
		{Initialize{{k, 1, -1, 0}}, nil},
		{Initialize{{k, 1, 0, 0}}, nil}, // a repetition
		{Open{{Key: k, ID: first, Recorded: -1, Leader: 0, Cut: 0, Epochs: beginning(0)}}, nil},
		{Write{marked}, nil},
		{Open{{Key: k, ID: first, Recorded: 0, Leader: 1, Cut: 7, Epochs: beginning(1)}}, nil}, // the log has lost nothing
		{Open{{Key: k, ID: first, Recorded: 1, Leader: 2, Cut: 6, Epochs: beginning(2)}}, []any{Changed{k, first, 2}}},
		{Open{{Key: k, ID: first, Recorded: 1, Leader: 3, Cut: 5, Epochs: beginning(3)}}, nil}, // refused
		{Initialize{{k, 2, 9, 0}}, []any{Changed{k, second, -1}}},
		{Peek{k}, nil},
		{Notified{}, nil},
		{Delete{{k, 0}}, []any{Changed{Key: k, Leader: -1}}},
		{Delete{{k, 0}}, nil},
	} {
		if answer, sent := send(c.event); !reflect.DeepEqual(sent, c.want) {
			t.Errorf("%d: %T is answered with %+v and sends %+v, want %+v", i, c.event, answer, sent, c.want)
		}
	}
}

// A read has the whole state and changes nothing.
func TestAReadOpensNothing(t *testing.T) {
	d := newDesk(config())
	unknown := State{Err: kerr.InvalidRequest, Leader: -1, Stored: window.Stored{Start: -1}}
	if got := ask[[]State](d, Read{keyOf(0)}); !reflect.DeepEqual(got, []State{unknown}) {
		t.Errorf("%+v", got)
	}
	ask[[]*kerr.Error](d, Initialize{{keyOf(0), 3, -1, 0}, {keyOf(1), 4, 5, 0}})
	got := ask[[]State](d, Read{keyOf(0), keyOf(1)})
	if a, b := got[0], got[1]; a.Err != nil || a.Stored.Start != -1 || a.Leader != -1 || b.Stored.Start != 5 || b.ID.StateEpoch != 4 {
		t.Errorf("%+v", got)
	}
	o := Opening{Key: keyOf(1), ID: got[1].ID, Recorded: -1, Leader: 2, Cut: -1, Epochs: beginning(2)}
	ask[[]Opened](d, Open{o})
	written := []window.Mark{mark(7, 8, window.Archived, 3)}
	ask[[]*kerr.Error](d, Write{{Key: o.Key, ID: o.ID, Leader: 2, Start: 6, Complete: 2, Marks: written}})
	want := State{ID: o.ID, Leader: 2, Complete: 2, Stored: window.Stored{Start: 6, Marks: written}}
	before := len(d.log)
	if got := ask[[]State](d, Read{o.Key}); !reflect.DeepEqual(got, []State{want}) || len(d.log) != before {
		t.Errorf("%+v, want %+v; it has written %d records", got, want, len(d.log)-before)
	}
	if d.wrong != "" {
		t.Error(d.wrong)
	}
}

// A prune says how much all snapshots need, so that its caller knows when the next one is due.
func TestAPruneSaysWhatSnapshotsNeed(t *testing.T) {
	d := newDesk(config())
	ask[[]*kerr.Error](d, Initialize{{keyOf(0), 1, 0, 0}, {keyOf(1), 1, 0, 0}})
	size := int64(0)
	for _, r := range d.log {
		if typ, _, err := format.DecodeKey(r.Key); err == nil && typ == format.TypeSnapshot {
			size += int64(r.Size())
		}
	}
	if p := ask[Pruned](d, Prune{2}); p.To != -1 || p.Bytes < size || p.Bytes > 20*size {
		t.Errorf("%+v; the snapshots have %d bytes", p, size)
	}
}
