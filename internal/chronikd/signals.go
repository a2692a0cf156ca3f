package chronikd

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/exit"
)

// signalsMerge is the time after the first signal in which further signals count as the same
// request. Two often arrive within milliseconds: `timeout` signals the process and its group, a
// terminal signals a whole pipeline, and people press Ctrl-C twice.
const signalsMerge = 2 * time.Second

// signals turns the first signal that asks the process to end into a drain, and a later one into an
// immediate exit.
type signals struct {
	ch   <-chan os.Signal // from os/signal; never closed
	exit func(code int)
	log  atomic.Pointer[zap.Logger] // of a broker; nil before it has one, and for other commands
	// reload, if set, receives each SIGHUP, which then does not end the process.
	reload atomic.Pointer[chan struct{}]
}

// reloads reports whether sig asks to reload files, and passes that on.
func (s *signals) reloads(sig os.Signal) bool {
	ch := s.reload.Load()
	if sig != syscall.SIGHUP || ch == nil {
		return false
	}
	select {
	case *ch <- struct{}{}:
	default: // one is waiting already
	}
	return true
}

// watch returns a context that ends with the first signal or with parent. It handles signals until
// end is called.
func (s *signals) watch(parent context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(parent)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-s.ch:
				if s.reloads(sig) {
					continue
				}
				first := time.Now()
				s.first(sig)
				cancel()
				s.later(over, first)
				return
			case <-over:
				return
			}
		}
	}()
	return ctx, func() {
		close(over)
		cancel()
	}
}

// first logs the effect of the first signal and of a second one.
func (s *signals) first(sig os.Signal) {
	if log := s.log.Load(); log != nil {
		log.Info("signal received, draining: accepted requests are answered and the data directory is marked clean; another signal, "+
			signalsMerge.String()+" or more from now, ends the process at once, and the next start must recover",
			zap.Stringer("signal", sig), zap.Duration("atMost", daemon.StopTime()))
	}
}

// later ends the process on a signal that arrives at least signalsMerge after the first.
func (s *signals) later(over <-chan struct{}, first time.Time) {
	for {
		select {
		case sig := <-s.ch:
			if s.reloads(sig) || time.Since(first) < signalsMerge {
				continue
			}
			if log := s.log.Load(); log != nil {
				log.Warn("another signal, ending at once: in-flight requests are not answered, the data directory is not marked clean, "+
					"and the next start must recover", zap.Stringer("signal", sig), zap.Duration("afterTheFirst", time.Since(first)))
			}
			s.exit(exit.Cut)
			return
		case <-over:
			return
		}
	}
}
