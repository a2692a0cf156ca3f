package daemon

import (
	"context"
	"errors"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// run starts a broker, serves until ctx ends or the broker cannot continue, drains and stops it,
// and reports each step to systemd. If ctx ends during the start, the start and any recovery end
// too, without an error.
func run(ctx context.Context, o Options) error {
	s := newSupervisor(o.Log)
	defer s.end()
	o.begun = s.begin
	b, err := Start(ctx, o)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		o.Log.Info("stopped before it was ready, as requested; the next start completes the recovery", zap.Error(err))
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
		o.Log.Error("the broker cannot continue", zap.Error(failure))
	}
	s.stopping(failure)
	return errors.Join(failure, b.Close())
}
