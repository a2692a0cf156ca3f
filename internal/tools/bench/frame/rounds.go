package frame

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Limits of a Schedule.
const (
	maxRounds = 1000
	maxPause  = time.Hour
)

// Schedule sets how often the runs of a comparison are repeated. All sides have their runs in
// each round, so that a machine whose speed changes over time affects all of them alike.
type Schedule struct {
	// Rounds is the number of counted rounds, 1 to maxRounds. Discard is the number of rounds
	// before them that are not counted: a broker that compiles at run time is slower in its first
	// round.
	Rounds  int `json:"rounds"`
	Discard int `json:"discard"`
	// Pause is the time between two runs.
	Pause time.Duration `json:"pause_ns"`
	// Sync makes the disks of this machine write all of the page cache before each run. A broker
	// that acknowledges from there leaves gigabytes behind, for which the next run's syncs would
	// wait.
	Sync bool `json:"sync"`
}

// Bind adds the flags of the rounds, with n rounds by default.
func (s *Schedule) Bind(f *pflag.FlagSet, n int) {
	f.IntVar(&s.Rounds, "rounds", n, "number of rounds, "+settings.Range(1, maxRounds))
	f.IntVar(&s.Discard, "discard", 0, "rounds before them that are not counted, to warm up the brokers, "+
		settings.Range(0, maxRounds))
	f.DurationVar(&s.Pause, "pause", 0, "time between two runs, "+settings.Range(0, maxPause))
	f.BoolVar(&s.Sync, "sync", true, "before each run, let the disks of this machine write all of the page cache")
}

// Check checks the rounds.
func (s Schedule) Check(x *settings.Checks) {
	x.Between("rounds", s.Rounds, 1, maxRounds)
	x.Between("discard", s.Discard, 0, maxRounds)
	if s.Pause < 0 || s.Pause > maxPause {
		x.Add("--pause: %v is not between 0s and %v", s.Pause, maxPause)
	}
}

// Heading writes that a table has the medians of so many complete rounds, and of what.
func (s Schedule) Heading(w io.Writer, complete int, of string) {
	fmt.Fprintf(w, "medians of %d rounds (min..max)%s\n", complete, of)
	if complete < s.Rounds {
		fmt.Fprintf(w, "INTERRUPTED after %d of %d rounds\n", complete, s.Rounds)
	}
}

// Side is a broker, or a cluster.
type Side struct {
	Name    string   `json:"name"`
	Brokers []string `json:"bootstrap_servers"`
	// PID is the broker's process on this machine, 0 if its processor time is not measured.
	PID int `json:"server_pid,omitempty"`
}

// Names returns the names of sides.
func Names(sides []Side) (names []string) {
	for _, s := range sides {
		names = append(names, s.Name)
	}
	return names
}

// BindSides adds the flags of two sides, whose current values are the defaults. each names the work
// that the processor time is divided by, and optional is the end of the text about B's brokers.
func BindSides(f *pflag.FlagSet, a, b *Side, each, optional string) {
	f.StringSliceVar(&a.Brokers, "a", a.Brokers, "brokers of side A, host:port,…")
	f.StringSliceVar(&b.Brokers, "b", b.Brokers, "brokers of side B, host:port,…"+optional)
	f.StringVar(&a.Name, "name-a", "A", "name of side A")
	f.StringVar(&b.Name, "name-b", "B", "name of side B")
	f.IntVar(&a.PID, "pid-a", 0,
		"process id of A's broker on this machine: shows its CPU time per "+each+" (Linux), "+settings.PID().String())
	f.IntVar(&b.PID, "pid-b", 0, "process id of B's broker, "+settings.PID().String())
}

// Alternate makes rounds of type R. In each it calls run for the side i of names, side after side,
// to fill in its part of the round, after a sync if s says so. each, which may be nil, gets run's
// text as a line that begins with the round and the side. Alternate returns the counted rounds. If
// ctx ends, they are those completed before; without one it is an error. An error of run ends the
// rounds, and is returned with those before it.
func Alternate[R any](ctx context.Context, s Schedule, names []string, run func(i int, round *R) (string, error),
	each func(line string)) (rounds []R, err error) {
	for n := range s.Discard + s.Rounds {
		head := fmt.Sprintf("round %d", n-s.Discard+1)
		if n < s.Discard {
			head = fmt.Sprintf("discarded round %d", n+1)
		}
		var round R
		for i, name := range names {
			var text string
			if n+i == 0 || pause.Wait(ctx.Done(), s.Pause) {
				if s.Sync {
					unix.Sync()
				}
				text, err = run(i, &round)
			}
			if ctx.Err() != nil { // an interrupted run is not comparable
				if len(rounds) == 0 {
					return nil, fmt.Errorf("no round was completed: %w", context.Cause(ctx))
				}
				return rounds, nil
			}
			if err != nil {
				return rounds, fmt.Errorf("%s, %s: %w", head, name, err)
			}
			if each != nil {
				each(head + "  " + name + "  " + text)
			}
		}
		if n >= s.Discard {
			rounds = append(rounds, round)
		}
	}
	return rounds, nil
}
