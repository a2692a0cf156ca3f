package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// Intervals of the messages to the service manager.
const (
	// statusEvery is the interval during startup, whose progress people watch; a serving broker
	// reports every slower × statusEvery.
	statusEvery = 250 * time.Millisecond
	slower      = 20
	// startExtension is the time that each sign of progress adds to startup, whatever the manager's
	// own limit: a long recovery is not a failed start.
	startExtension = 2 * time.Minute
	// extendEvery × statusEvery is the interval of extensions while a start waits for others.
	// A restart would not make them come sooner.
	extendEvery = 120
	// beatTime is the maximum duration of one progress check, whatever the watchdog's timeout.
	beatTime = 10 * time.Second
)

// supervisor reports the broker's state to systemd: a status text, the progress of startup, which
// extends its time limit, readiness, the stop and, if a watchdog is configured, keep-alives.
// Without a service manager it does nothing.
//
// run uses it in the order begin, ready, stopping, end; a step may be missing. One goroutine, which
// begin starts and end ends, sends all messages.
type supervisor struct {
	log   *zap.Logger
	send  func(state string) error // nil without a service manager
	watch time.Duration            // the watchdog's timeout; 0 without a watchdog

	broker *Broker // since begin
	events chan event
	done   chan struct{}
	// serving ends when the broker stops, and with it a progress check that waits for a response.
	serving context.Context
	drain   context.CancelFunc
}

// event is a step in the broker's life. The zero event ends the goroutine.
type event struct {
	state string // as systemd names it
	text  string // the status; empty means the broker's own
}

// newSupervisor reads from the environment whether a service manager listens.
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

// begin starts to report on b, before b recovers.
func (s *supervisor) begin(b *Broker) {
	s.broker = b
	if s.send != nil {
		go s.run()
	}
}

// ready reports that clients are served.
func (s *supervisor) ready() { s.say(event{state: sd.SdNotifyReady}) }

// stopping reports that the broker drains and, if err is not nil, why.
func (s *supervisor) stopping(err error) {
	s.drain()
	e := event{state: sd.SdNotifyStopping, text: "draining"}
	if err != nil {
		e.text = "cannot continue: " + err.Error()
	}
	s.say(e)
}

// failed reports why there is no broker.
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

// run is the body of the goroutine.
func (s *supervisor) run() {
	defer close(s.done)
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var beats <-chan time.Time
	if s.watch > 0 {
		// Twice as often as systemd recommends, so that one failed check is not fatal.
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
				p = newPulse(s.broker.Addrs()[0], s.broker.watchedDirs(), s.watch/5) // less than between two beats
			}
			said = s.status(now)
			s.notify(now.state + "\nSTATUS=" + said)
		case <-tick.C:
			if ticks++; now.state == sd.SdNotifyReady && ticks%slower != 0 {
				continue
			}
			more := ""
			waits := s.broker.waiting() && ticks%extendEvery == 0
			if n := s.broker.health.Moves(); now.state == "" && (n != moves || waits) {
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

// alive reports whether a keep-alive is due: for a serving broker, if it makes progress; for a
// draining broker always, because another limit bounds its time. Startup is not watched.
func (s *supervisor) alive(now event, p *pulse) bool {
	if now.state != sd.SdNotifyReady {
		return now.state != ""
	}
	ctx, cancel := context.WithTimeout(s.serving, min(s.watch/4, beatTime))
	defer cancel()
	if err := p.beat(ctx); err != nil && s.serving.Err() == nil {
		s.log.Error("no progress: systemd's watchdog receives no keep-alive and ends this process if that continues",
			zap.Duration("watchdog", s.watch), zap.Error(err))
		return false
	}
	return true
}

// notify sends one message. The broker serves even if systemd cannot be notified.
func (s *supervisor) notify(message string) {
	if err := s.send(message); err != nil {
		s.log.Warn("cannot notify systemd", zap.String("message", message), zap.Error(err))
	}
}
