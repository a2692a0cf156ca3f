package desk

import (
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// instant are coordinators that store everything at once.
type instant struct{ *node }

func (instant) SubmitTo(_ int32, event any, done func(any, error)) {
	done(make([]*kerr.Error, len(event.(sharestate.Write))), nil)
}

func (i instant) Image() *metadata.Image { return i.w.image }

// What a write costs in addition to its coordinator, on the same broker and on another one.
func BenchmarkWrite(b *testing.B) {
	marks := []window.Mark{{First: 100, Last: 100, State: window.Acknowledged, Count: 1}}
	run := func(b *testing.B, k func(int32, int32) sharestate.Writing, at int32) {
		w := newWorld(b, 1, 2)
		defer w.close()
		here, there := instant{w.nodes[1]}, instant{w.nodes[2]}
		far := New(Options{Self: 2, Coordinators: there})
		defer far.Close()
		d := New(Options{Self: 1, Coordinators: here, Call: func(ctx context.Context, _ int32, body []byte) ([]byte, error) {
			return far.Handle(ctx, 1, body)
		}})
		defer d.Close()
		item := k(at, at)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		underWay := make(chan struct{}, 1000)
		var all sync.WaitGroup
		b.ReportAllocs()
		for range b.N {
			underWay <- struct{}{}
			all.Add(1)
			d.Write(ctx, []sharestate.Writing{item}, func([]*kerr.Error) { <-underWay; all.Done() })
		}
		all.Wait()
	}
	item := func(data, state int32) sharestate.Writing {
		return sharestate.Writing{Key: keyOn(data, state), Leader: 1, Marks: marks}
	}
	b.Run("here", func(b *testing.B) { run(b, item, 0) })
	b.Run("there", func(b *testing.B) { run(b, item, 1) })
}
