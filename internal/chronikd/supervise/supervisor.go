package supervise

import (
	"context"
	"fmt"
	"os"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/text"
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

// Supervisor reports the broker's state to systemd: a status text, the progress of startup, which
// extends its time limit, readiness, the stop and, if a watchdog is configured, keep-alives.
// Without a service manager it does nothing.
//
// Its user calls Begin, Ready, Stopping and End in this order; a step may be missing. One
// goroutine, which Begin starts and End ends, sends all messages.
type Supervisor struct {
	log   *zap.Logger
	send  func(state string) error // nil without a service manager
	watch time.Duration            // the watchdog's timeout; 0 without a watchdog

	broker Process       // since Begin
	events chan event    // unbuffered: a sender waits for the goroutine; an event without a state ends it
	done   chan struct{} // closed by the goroutine at its end
	// serving ends when the broker stops, and with it a progress check that waits for a response.
	serving context.Context
	drain   context.CancelFunc
}

// Process is what a Supervisor reports on: a broker.
type Process interface {
	Addrs() []string
	// Status returns a text for people.
	Status() string
	// Moves grows with every sign of progress of the start.
	Moves() uint64
	// Waiting reports whether the start waits for other brokers.
	Waiting() bool
}

// event is a step in the broker's life. The zero event ends the goroutine.
type event struct {
	state string // as systemd names it
	text  string // the status; empty means the broker's own
	dirs  []Dir  // of a broker that is ready
}

// New reads from the environment whether a service manager listens.
func New(log *zap.Logger) *Supervisor {
	s := &Supervisor{log: log, events: make(chan event), done: make(chan struct{})}
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

// Begin starts to report on b, before b recovers.
func (s *Supervisor) Begin(b Process) {
	s.broker = b
	if s.send != nil {
		go s.run()
	}
}

// Ready reports that clients are served. dirs are the log directories.
func (s *Supervisor) Ready(dirs []Dir) { s.say(event{state: sd.SdNotifyReady, dirs: dirs}) }

// Stopping reports that the broker drains and, if err is not nil, why.
func (s *Supervisor) Stopping(err error) {
	s.drain()
	e := event{state: sd.SdNotifyStopping, text: "draining"}
	if err != nil {
		e.text = "cannot continue: " + err.Error()
	}
	s.say(e)
}

// Canceled reports that the start has ended as requested.
func (s *Supervisor) Canceled() {
	s.say(event{state: sd.SdNotifyStopping, text: "stopped before it was ready"})
}

// Failed reports why there is no broker.
func (s *Supervisor) Failed(err error) {
	s.say(event{state: sd.SdNotifyStopping, text: "failed to start: " + err.Error()})
}

func (s *Supervisor) say(e event) {
	if s.broker != nil && s.send != nil {
		s.events <- e
	}
}

// End ends the goroutine.
func (s *Supervisor) End() {
	s.drain()
	if s.broker != nil && s.send != nil {
		s.events <- event{}
		<-s.done
	}
}

// run is the body of the goroutine.
func (s *Supervisor) run() {
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
				p = newPulse(s.broker.Addrs()[0], now.dirs, s.watch/5) // less than between two beats
			}
			said = s.status(now)
			s.notify(now.state + "\nSTATUS=" + said)
		case <-tick.C:
			if ticks++; now.state == sd.SdNotifyReady && ticks%slower != 0 {
				continue
			}
			more := ""
			waits := s.broker.Waiting() && ticks%extendEvery == 0
			if n := s.broker.Moves(); now.state == "" && (n != moves || waits) {
				moves, more = n, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", startExtension.Microseconds())
			}
			if status := s.status(now); status != said || more != "" {
				said = status
				s.notify(more + "STATUS=" + status)
			}
		case <-beats:
			if s.alive(now, &p) {
				s.notify(sd.SdNotifyWatchdog)
			}
		}
	}
}

func (s *Supervisor) status(now event) string {
	if now.text != "" {
		return text.OneLine(now.text)
	}
	return text.OneLine(s.broker.Status())
}

// alive reports whether a keep-alive is due: for a serving broker, if it makes progress; for a
// draining broker always, because another limit bounds its time. Startup is not watched.
func (s *Supervisor) alive(now event, p *pulse) bool {
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
func (s *Supervisor) notify(message string) {
	if err := s.send(message); err != nil {
		s.log.Warn("cannot notify systemd", zap.String("message", message), zap.Error(err))
	}
}
