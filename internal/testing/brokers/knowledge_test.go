package brokers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/health"
)

// fenced waits until another broker shows a broker as fenced.
func (c *clients) fenced(id int32) {
	count := fmt.Sprintf("%d brokers; ", c.w.size()-1)
	if until(patience, func() bool {
		_, bad := c.state(1 + id%3)
		return len(bad) >= len(count) && bad[:len(count)] == count
	}) != nil {
		c.w.problem("broker %d is not fenced", id)
	}
}

// The disk of the metadata hangs, of one broker after the other, and so also of the metadata
// leader. Its log directories, its network and its heartbeats work. The others take over, and what
// it answers needs no knowledge that it lacks.
func TestAMetadataDiskThatHangs(t *testing.T) { eachMetadataDisk(t, 21, (*world).hang) }

// The metadata disk of one broker after the other refuses writes for a while.
func TestAMetadataDiskThatIsFull(t *testing.T) { eachMetadataDisk(t, 22, (*world).failDisk) }

func eachMetadataDisk(t *testing.T, seed uint64, fault func(*world, int32, string, time.Duration)) {
	history(t, seed, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			w.note("the disk of the metadata of %d fails", id)
			fault(w, id, "/data/metadata/", time.Hour)
			c.progress(20 * time.Second)
			time.Sleep(2 * controller.DefaultSessionTimeout)
			c.fenced(id)
			c.refusesAcksOfOne(id)
			w.heal()
			c.inSync()
		}
	})
}

// The metadata disk of the only voter is full. Its health names the disk and asks for no other
// voter, and when there is room, it leads again.
func TestTheMetadataDiskOfTheOnlyVoterIsFull(t *testing.T) {
	historyOf(t, 25, kind{voters: 1}, func(w *world, c *clients) {
		w.failDisk(1, "/data/metadata/", time.Hour)
		var last health.Finding
		if until(patience, func() bool {
			for _, f := range w.findings(1) {
				if f.Check == "quorum" && strings.Contains(f.Problem, "no metadata leader") {
					last = f
				}
			}
			return last.Check != ""
		}) != nil {
			w.problem("no finding about the metadata quorum")
		}
		if !strings.Contains(last.Problem, "no space left on device") || strings.Contains(last.Remedy, "start brokers") {
			w.problem("the finding is %q, its remedy %q", last.Problem, last.Remedy)
		}
	})
}

// The others cannot dial a broker without a vote, which can dial them: its heartbeats and their
// answers arrive, and no change of the metadata does.
func TestABrokerWithoutAVoteThatNobodyCanDial(t *testing.T) {
	historyOf(t, 23, kind{brokers: 4}, undialed)
}

// undialed is that history.
func undialed(w *world, c *clients) {
	c.inSync()
	for id := range int32(3) {
		w.net.Relay(ip(id+1), ip(4), false)
	}
	c.progress(20 * time.Second)
	time.Sleep(2 * controller.DefaultSessionTimeout)
	c.fenced(4)
	c.refusesAcksOfOne(4)
	w.heal()
	c.inSync()
}

// Brokers reach each other through relays, which end: a broker that runs looks like one that has
// ended, and is fenced early. It has no lease from then on.
func TestRelaysThatEnd(t *testing.T) {
	history(t, 24, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			w.note("the relays of %d end", id)
			w.relays(id, false)
			c.fenced(id)
			c.refusesAcksOfOne(id)
			c.progress(20 * time.Second)
			w.heal()
			c.inSync()
		}
	})
}
