package network

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// numbered is a Committer that writes its number down.
type numbered struct {
	n   int
	did *[]int
}

func (c *numbered) Commit() { *c.did = append(*c.did, c.n) }

func TestTurnDoesTheSameOnce(t *testing.T) {
	var did []int
	var all []*numbered
	for i := range turnDouble {
		all = append(all, &numbered{i, &did})
	}
	var turn turn
	for range 3 {
		for _, c := range all {
			turn.add(c)
		}
		turn.add(all[0])
	}
	turn.end()
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(did, want) {
		t.Errorf("done: %v", did)
	}
	turn.end()
	if len(did) != len(all) {
		t.Errorf("done again: %v", did)
	}
}

func TestTurnIsBounded(t *testing.T) {
	var did []int
	var turn turn
	for i := range 3*turnMost + 1 {
		turn.add(&numbered{i, &did})
		if n := len(turn.later); n > turnMost || len(did)+n != i+1 {
			t.Fatalf("%d wait and %d are done, of %d", n, len(did), i+1)
		}
	}
	turn.end()
	if len(did) != 3*turnMost+1 || !slices.IsSorted(did) {
		t.Errorf("%d were done, in order: %v", len(did), slices.IsSorted(did))
	}
	if n := cap(turn.later); n > turnKept {
		t.Errorf("it keeps room for %d", n)
	}
}

// lateOnly answers requests when their turn ends, and only then.
type lateOnly struct{ waiting []*Request }

func (l *lateOnly) Commit() {
	for _, r := range l.waiting {
		r.Respond(body(nil))
	}
	l.waiting = nil
}

// TestTurnEndsBeforeTheReaderWaits: wherever a reader may wait, what the requests
// before have left is done first.
func TestTurnEndsBeforeTheReaderWaits(t *testing.T) {
	next := frame(protocol.KeyProduce, 3, 2, make([]byte, 100))
	for name, c := range map[string]struct {
		then   []byte
		change func(*Options)
	}{
		"for a request":               {},
		"for a length":                {then: next[:2]},
		"for a frame":                 {then: next[:50]},
		"for a large frame":           {then: frame(protocol.KeyProduce, 3, 2, make([]byte, 100_000))[:50_000]},
		"until Produce is answered":   {then: frame(keyMetadata, 3, 2, nil)},
		"for one request to end":      {then: next, change: func(o *Options) { o.ConnectionRequests = 1 }},
		"for the connection's bytes":  {then: next, change: func(o *Options) { o.ConnectionBytes = 100 }},
		"for the budget":              {then: next, change: func(o *Options) { o.ProduceBytes = 20 }},
		"while it is muted":           {then: append(frame(protocol.KeyProduce, 3, 3, nil), next...)},
		"no more: the frame is bad":   {then: []byte{0xff, 0xff, 0xff, 0xff}},
		"no more: the version is bad": {then: frame(protocol.KeyProduce, 99, 2, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			late := &lateOnly{} // of the one reader
			f := start(t, func(r *Request) {
				if r.CorrelationID == 2 {
					r.Respond(body(nil))
					return
				}
				if r.CorrelationID == 3 {
					r.Throttle(time.Hour)
				}
				late.waiting = append(late.waiting, r)
				r.Later(late)
			}, c.change)
			defer f.end(t)
			p := f.pipe.dial()
			defer p.Close()
			if err := p.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			p.sendAsync(append(frame(protocol.KeyProduce, 3, 1, nil), c.then...))
			p.want(t, 1)
			if name == "while it is muted" {
				p.want(t, 3)
			}
		})
	}
}
