package daemon

import (
	"context"
	"errors"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// run starts a broker, serves until ctx ends or the broker cannot go on, drains
// and stops it, and tells systemd about it. A context that ends while it starts
// ends the start, also a recovery, and is no error: that was asked for.
func run(ctx context.Context, o Options) error {
	s := newSupervisor(o.Log)
	defer s.end()
	o.begun = s.begin
	b, err := Start(ctx, o)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		o.Log.Info("stopped before it was ready, as asked; the next start recovers what this one did not", zap.Error(err))
		s.say(event{state: sd.SdNotifyStopping, text: "stopped before it was ready"})
		return nil
	}
	if err != nil {
		s.failed(err)
		return err
	}
	s.ready()
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-b.Failed():
		o.Log.Error("the broker cannot go on", zap.Error(failure))
	}
	s.stopping(failure)
	return errors.Join(failure, b.Close())
}
