package audit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// hung is a sink whose Write waits until it is closed.
type hung struct {
	memory
	free chan struct{} // closed by the test
}

func (h *hung) Write([]byte) error {
	<-h.free
	return nil
}

// Close does not return while the sink may still write, even if its time has ended: another broker
// may get the directory of its file when Close has returned.
func TestCloseWaitsForASinkThatWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &hung{free: make(chan struct{})}
		l := Open(Options{Mode: All, Sink: Same(sink)})
		l.Record(refused("User:a", "192.0.2.1", "topic a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		closed := make(chan error, 1)
		go func() { closed <- l.Close(ctx) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatal("Close returned while the sink writes:", err)
		default:
		}
		close(sink.free)
		if err := <-closed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
