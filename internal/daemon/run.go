package daemon

import (
	"context"
	"errors"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// run starts a broker, serves until ctx ends or the broker cannot go on, drains
// and stops it, and tells systemd about it.
func run(ctx context.Context, o Options) error {
	b, err := Start(ctx, o)
	if err != nil {
		return err
	}
	notify(o.Log, sd.SdNotifyReady)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-b.Failed():
		o.Log.Error("the broker cannot go on", zap.Error(failure))
	}
	notify(o.Log, sd.SdNotifyStopping)
	return errors.Join(failure, b.Close())
}

// notify tells systemd, where it started this process.
func notify(log *zap.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}
