package sharing

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Config describes a measurement.
type Config struct {
	A frame.Side `json:"a"`
	// B is nil if only one broker is measured.
	B *frame.Side `json:"b,omitempty"`
	// Loads are names of Loads; all of them if empty.
	Loads []string `json:"loads"`
	frame.Schedule
	frame.Interval
	// Size is the size of a record's value in bytes, and Rate how many records per second the paced
	// loads produce.
	Size int `json:"message_size"`
	Rate int `json:"rate"`
	// Keep keeps the topics and the groups.
	Keep bool `json:"keep"`
}

// Limits of a Config.
const (
	maxSize = 1 << 20
	maxRate = 1_000_000
)

// Load is a kind of load: members of one group that acknowledge what they get, each poll at once.
type Load struct {
	Name       string `json:"name"`
	Consumers  int    `json:"consumers"`
	Partitions int    `json:"partitions"`
	// Paced: records are produced at a fixed rate. Otherwise there are always more than the members
	// can take.
	Paced bool `json:"paced,omitempty"`
}

// About describes a load.
func (l Load) About() string {
	about := fmt.Sprintf("consumers: %d, partitions: %d, ", l.Consumers, l.Partitions)
	if l.Paced {
		return about + "records at a fixed rate"
	}
	return about + "always more records than they can take"
}

// Loads returns every load.
func Loads() (list []Load) {
	for _, paced := range []bool{false, true} {
		for _, partitions := range []int{1, 100} {
			for _, consumers := range []int{1, 10, 100} {
				l := Load{Name: fmt.Sprintf("%dx%d", consumers, partitions), Consumers: consumers, Partitions: partitions, Paced: paced}
				if paced {
					l.Name = "paced-" + l.Name
				}
				list = append(list, l)
			}
		}
	}
	return list
}

// sides returns the brokers that are measured.
func (c Config) sides() []frame.Side {
	if c.B == nil {
		return []frame.Side{c.A}
	}
	return []frame.Side{c.A, *c.B}
}

// loads returns the loads of c.
func (c Config) loads() (list []Load) {
	for _, l := range Loads() {
		if len(c.Loads) == 0 || slices.Contains(c.Loads, l.Name) {
			list = append(list, l)
		}
	}
	return list
}

// check returns an error for every invalid setting.
func (c Config) check() error {
	var x settings.Checks
	side := func(flag string, s frame.Side) {
		x.Brokers(flag, s.Brokers...)
		if s.PID == 0 {
			return
		}
		if _, err := meter.ProcessCPU(s.PID); err != nil {
			x.Add("--pid-%s: the processor time of process %d can't be read; name the broker's process on this machine, or remove it",
				flag, s.PID)
		}
	}
	side("a", c.A)
	if c.B != nil {
		side("b", *c.B)
		if c.A.Name == c.B.Name {
			x.Add("--name-b: both sides are named %q; choose different names", c.A.Name)
		}
	}
	var names []string
	for _, l := range Loads() {
		names = append(names, l.Name)
	}
	for _, name := range c.Loads {
		x.OneOf("loads", name, names...)
	}
	c.Schedule.Check(&x)
	x.Between("message-size", c.Size, stampSize, maxSize)
	x.Between("rate", c.Rate, 1, maxRate)
	c.Interval.Check(&x)
	return x.Err()
}
