package daemon

import (
	"fmt"
	"strings"
)

// status is what goes on, in one line for people: how far a start is, what is
// served, and what stands in the way.
func (b *Broker) status() string {
	report := b.health.Last()
	if !report.Ready {
		return oneLine(report.Text())
	}
	// The broker is ready, so its rooms are all there.
	text := fmt.Sprintf("serving %d partitions on %s", len(b.rooms.storage.Logs()), strings.Join(b.Addrs(), ", "))
	if s := b.rooms.server.Load(); s != nil {
		text += fmt.Sprintf(", %d connections", s.Stats().Connections)
	}
	if _, weak, _ := strings.Cut(report.Text(), "\n"); weak != "" {
		text += "; " + oneLine(weak)
	}
	return text
}

// beatings are the log directories of a broker that is ready.
func (b *Broker) beatings() []beating {
	dirs := b.rooms.storage.Dirs()
	all := make([]beating, len(dirs))
	for i, d := range dirs {
		all[i] = d
	}
	return all
}

// oneLine joins lines, for where a message must be one.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
