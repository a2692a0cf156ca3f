package daemon

import (
	"context"
	"errors"

	"go.uber.org/zap"
)

// run starts a broker, serves until ctx ends or the broker cannot go on, drains
// and stops it, and tells systemd about it.
func run(ctx context.Context, o Options) error {
	s := newSupervisor(o.Log)
	defer s.end()
	o.begun = s.begin
	b, err := Start(ctx, o)
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
