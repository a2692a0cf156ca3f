package sharing

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Config describes a measurement.
type Config struct {
	frame.Comparison
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

// Title implements frame.Load.
func (l Load) Title() string { return l.Name }

// Says implements frame.Load.
func (l Load) Says() string {
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

// check returns an error for every invalid setting.
func (c Config) check() error {
	var x settings.Checks
	frame.CheckLoads(&x, c.Comparison, Loads())
	x.Between("message-size", c.Size, stampSize, maxSize)
	x.Between("rate", c.Rate, 1, maxRate)
	return x.Err()
}
