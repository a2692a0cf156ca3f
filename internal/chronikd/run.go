package chronikd

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/chronikd/supervise"
	"github.com/chronik-io/chronik/internal/daemon"
)

// run starts a broker, serves until ctx ends or the broker cannot continue, drains and stops it,
// and reports each step to systemd. If ctx ends during the start, the start and any recovery end
// too, without an error.
func run(ctx context.Context, o daemon.Options) error {
	s := supervise.New(o.Log)
	defer s.End()
	o.Begun = func(b *daemon.Broker) { s.Begin(b) }
	b, err := daemon.Start(ctx, o)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		o.Log.Info("stopped before it was ready, as requested; the next start completes the recovery", zap.Error(err))
		s.Canceled()
		return nil
	}
	if err != nil {
		s.Failed(err)
		return err
	}
	var dirs []supervise.Dir
	for _, d := range b.Dirs() {
		dirs = append(dirs, d)
	}
	s.Ready(dirs)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-b.Failed():
		o.Log.Error("the broker cannot continue, and ends; remove the cause before you start it again", zap.Error(failure))
	}
	s.Stopping(failure)
	return errors.Join(failure, b.Close())
}
