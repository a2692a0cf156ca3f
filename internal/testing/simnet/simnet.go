// Package simnet is a network in memory for tests of replication: it delays, loses, duplicates and
// reorders packets, and cuts single directions.
//
// It has no goroutine and no clock. The test advances it with Step and delivers what Step returns,
// so that a seed determines a whole run. It knows nothing of the packets' content.
package simnet

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Faults are the probabilities and delays of a network. The zero value delivers every packet once,
// in order, in the next step.
type Faults struct {
	Loss      float64 // probability that a packet is lost
	Duplicate float64 // probability that it is delivered twice
	// MaxDelay is the largest number of steps that a packet takes in addition to one.
	MaxDelay int
	// Reorder lets packets of one sender to one receiver overtake each other. A TCP connection does
	// not do that, but two successive connections may.
	Reorder bool
}

// Packet is a payload on its way.
type Packet struct {
	From, To uint64
	Payload  []byte

	at       int // the step of its delivery
	sequence int
}

// Net is a network. Its methods must not be called concurrently.
type Net struct {
	// Faults may be changed at any time; packets on their way keep their fate.
	Faults Faults

	rand   *rand.Rand
	now    int
	sent   int
	queue  []Packet
	last   map[[2]uint64]int // the step of the last delivery, by direction
	cut    map[[2]uint64]bool
	Losses int // packets lost or cut so far
}

// New returns a network whose random choices are determined by seed.
func New(seed uint64, f Faults) *Net {
	return &Net{Faults: f, rand: rand.New(rand.NewPCG(seed, 1)), last: map[[2]uint64]int{}, cut: map[[2]uint64]bool{}}
}

// Send puts a packet on its way. The network keeps the payload.
func (n *Net) Send(from, to uint64, payload []byte) {
	if n.cut[[2]uint64{from, to}] || n.rand.Float64() < n.Faults.Loss {
		n.Losses++
		return
	}
	copies := 1
	if n.rand.Float64() < n.Faults.Duplicate {
		copies = 2
	}
	for range copies {
		at := n.now + 1
		if n.Faults.MaxDelay > 0 {
			at += n.rand.IntN(n.Faults.MaxDelay + 1)
		}
		way := [2]uint64{from, to}
		if !n.Faults.Reorder {
			at = max(at, n.last[way])
			n.last[way] = at
		}
		n.sent++
		n.queue = append(n.queue, Packet{from, to, payload, at, n.sent})
	}
}

// Step advances the time by one step and returns the packets that arrive in it, in order.
func (n *Net) Step() []Packet {
	n.now++
	var due, rest []Packet
	for _, p := range n.queue {
		switch {
		case p.at > n.now:
			rest = append(rest, p)
		case n.cut[[2]uint64{p.From, p.To}]:
			n.Losses++
		default:
			due = append(due, p)
		}
	}
	n.queue = rest
	slices.SortFunc(due, func(a, b Packet) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sequence, b.sequence)) })
	return due
}

// Cut cuts one direction, including packets on their way, until Heal.
func (n *Net) Cut(from, to uint64) { n.cut[[2]uint64{from, to}] = true }

// Heal restores all directions.
func (n *Net) Heal() { clear(n.cut) }

// Forget loses everything on its way to an endpoint: its process ended. What the process sent may
// still arrive.
func (n *Net) Forget(endpoint uint64) {
	n.queue = slices.DeleteFunc(n.queue, func(p Packet) bool { return p.To == endpoint })
}
