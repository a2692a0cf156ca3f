package brokers

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/inspect"
)

// restoreCommand is what the start of a broker without metadata names if it has a copy of them.
var restoreCommand = regexp.MustCompile(`chronikd (recover) (--from) (/[^\s,]+)`)

// loseDataDir lets the only voter lose its data.dir while the others run. Its log directory is
// mounted there and remains, with the copy of the metadata. An operator starts it, stops all when
// its log names that copy, and does the rest of docs/cluster.md. The copy has all that was
// acknowledged, so nothing is lost. It reports whether the copy was complete.
func (c *clients) loseDataDir() bool {
	w := c.w
	c.changing <- struct{}{} // a later change of the setting would hide that one is lost
	defer func() { <-c.changing }()
	w.net.Heal()
	w.endSomehow(1)
	if id, _ := w.survivor(); id == 0 {
		w.start(1)
		return false
	}
	d := w.at(1)
	all, err := d.List(path.Dir(logDir))
	if err != nil {
		w.problem("%v", err)
	}
	for _, in := range all {
		if name := path.Join(path.Dir(logDir), in.Name); name != logDir {
			w.note("%s of broker 1 is lost", name)
			w.remove(d, name)
		}
	}
	begun := w.logged()
	w.start(1)
	var command []string
	if until(patience, func() bool {
		command = restoreCommand.FindStringSubmatch(w.since(begun))
		return command != nil
	}) != nil {
		w.problem("the start of the only voter without its metadata names no copy")
		return true
	}
	for id := range w.size() {
		w.endSomehow(id + 1)
	}
	w.repairsNothing(1, command[0])
	c.recoverOn(1, command[1:]...)
	why := ""
	if until(patience, func() bool {
		value, err := c.setting(1)
		why = fmt.Sprint(err)
		if err == nil {
			why = c.config.Read(value)
		}
		return err == nil
	}) != nil || why != "" {
		w.problem("recovered metadata: setting: %s", why)
	}
	return true
}

// repairsNothing runs log repair at a broker that has lost its metadata: those that are made from
// logs would not be those of the cluster. It names the command that restores them.
func (w *world) repairsNothing(id int32, command string) {
	o, err := inspect.Find(w.at(id), []string{path.Dir(logDir)}, nil)
	if err != nil {
		w.problem("log repair on broker %d: %v", id, err)
		return
	}
	o.Node = id
	r, err := inspect.Begin(context.Background(), o, "an operator")
	if err != nil { // another log is damaged
		w.note("log repair on broker %d: %v", id, err)
		return
	}
	defer r.Close()
	if !slices.ContainsFunc(r.Inspection().Findings, func(f inspect.Finding) bool { return strings.Contains(f.Restore, command) }) {
		w.problem("log repair on broker %d does not name %s: %+v", id, command, r.Inspection().Findings)
	}
	for _, a := range r.Plan().Acts {
		if a.Topic == "" {
			w.problem("log repair on broker %d: %s: %s", id, a.Dir, a.What)
		}
	}
}

// The only voter of three brokers ends in several ways and loses its data.dir, again and again.
func TestTheOnlyVoterLosesItsDataDir(t *testing.T) {
	historyOf(t, 48, kind{voters: 1}, func(w *world, c *clients) {
		lost := 0
		for range 4 {
			c.inSync()
			c.progress(time.Minute)
			if c.loseDataDir() {
				lost++
			}
		}
		if lost == 0 {
			w.problem("the copy of the metadata is never complete")
		}
	})
}
