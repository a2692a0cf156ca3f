package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// Times of what the service manager is told.
const (
	// statusEvery is for a start, of which somebody wants to see the progress, and
	// slower times that for a broker that serves.
	statusEvery = 250 * time.Millisecond
	slower      = 20
	// startExtension is how long a start may go on after each sign of progress,
	// whatever the manager's own limit: a long recovery is no failed start.
	startExtension = 2 * time.Minute
	// beatTime is how long one look at the broker may take at most, whatever the
	// watchdog's patience.
	beatTime = 10 * time.Second
)

// supervisor tells systemd how the broker is: what goes on as a text, that a
// start makes progress and may take longer, that it is ready, that it stops,
// and, where a watchdog waits for it, that it is alive. Where no service
// manager listens it does nothing.
//
// It is used by run, in this order: begin, ready, stopping, end; a step may be
// missing. Everything is sent by one goroutine, which begin starts and end ends.
type supervisor struct {
	log   *zap.Logger
	send  func(state string) error // nil where nobody listens
	watch time.Duration            // the watchdog's patience; 0 where there is none

	broker *Broker // since begin
	events chan event
	done   chan struct{}
	// serving ends when the broker stops, and with it a look at the broker that
	// waits for an answer.
	serving context.Context
	drain   context.CancelFunc
}

// event is a step in the broker's life. The zero one ends the goroutine.
type event struct {
	state string // as systemd names it
	text  string // the status; empty is the broker's own
}

// newSupervisor finds out from the environment who listens.
func newSupervisor(log *zap.Logger) *supervisor {
	s := &supervisor{log: log, events: make(chan event), done: make(chan struct{})}
	s.serving, s.drain = context.WithCancel(context.Background())
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return s
	}
	s.send = func(state string) error {
		_, err := sd.SdNotify(false, state)
		return err
	}
	var err error
	if s.watch, err = sd.SdWatchdogEnabled(false); err != nil {
		log.Warn("systemd's watchdog will get no keep-alive", zap.Error(err))
	}
	return s
}

// begin looks after b from now on, which is before it recovers.
func (s *supervisor) begin(b *Broker) {
	s.broker = b
	if s.send != nil {
		go s.run()
	}
}

// ready says that clients are served.
func (s *supervisor) ready() { s.say(event{state: sd.SdNotifyReady}) }

// stopping says that the broker drains, because of err where there is one.
func (s *supervisor) stopping(err error) {
	s.drain()
	e := event{state: sd.SdNotifyStopping, text: "draining"}
	if err != nil {
		e.text = "cannot go on: " + err.Error()
	}
	s.say(e)
}

// failed says why there is no broker.
func (s *supervisor) failed(err error) {
	s.say(event{state: sd.SdNotifyStopping, text: "failed to start: " + err.Error()})
}

func (s *supervisor) say(e event) {
	if s.broker != nil && s.send != nil {
		s.events <- e
	}
}

// end ends the goroutine.
func (s *supervisor) end() {
	s.drain()
	if s.broker != nil && s.send != nil {
		s.events <- event{}
		<-s.done
	}
}

// run is the goroutine.
func (s *supervisor) run() {
	defer close(s.done)
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var beats <-chan time.Time
	if s.watch > 0 {
		// Twice as often as systemd asks for: one look that fails is not yet fatal.
		t := time.NewTicker(s.watch / 4)
		defer t.Stop()
		beats = t.C
	}
	var (
		now   event
		said  string
		moves uint64
		ticks int
		p     pulse
	)
	defer func() { p.close() }()
	for {
		select {
		case now = <-s.events:
			switch {
			case now.state == "":
				return
			case now.state == sd.SdNotifyReady && s.watch > 0:
				p = newPulse(s.broker.Addrs()[0], s.broker.beatings())
			}
			said = s.status(now)
			s.notify(now.state + "\nSTATUS=" + said)
		case <-tick.C:
			if ticks++; now.state == sd.SdNotifyReady && ticks%slower != 0 {
				continue
			}
			more := ""
			if n := s.broker.health.Moves(); now.state == "" && n != moves {
				moves, more = n, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", startExtension.Microseconds())
			}
			if text := s.status(now); text != said || more != "" {
				said = text
				s.notify(more + "STATUS=" + text)
			}
		case <-beats:
			if s.alive(now, &p) {
				s.notify(sd.SdNotifyWatchdog)
			}
		}
	}
}

func (s *supervisor) status(now event) string {
	if now.text != "" {
		return oneLine(now.text)
	}
	return oneLine(s.broker.status())
}

// alive says whether a keep-alive is due: for a broker that serves while it
// makes progress, and for one that drains, whose time another limit bounds. A
// start is not watched.
func (s *supervisor) alive(now event, p *pulse) bool {
	if now.state != sd.SdNotifyReady {
		return now.state != ""
	}
	ctx, cancel := context.WithTimeout(s.serving, min(s.watch/4, beatTime))
	defer cancel()
	if err := p.beat(ctx); err != nil && s.serving.Err() == nil {
		s.log.Error("no progress: systemd's watchdog gets no keep-alive, and ends this process if that goes on",
			zap.Duration("watchdog", s.watch), zap.Error(err))
		return false
	}
	return true
}

// notify sends one message. That systemd was not told is no reason not to serve.
func (s *supervisor) notify(message string) {
	if err := s.send(message); err != nil {
		s.log.Warn("systemd was not told", zap.String("message", message), zap.Error(err))
	}
}
