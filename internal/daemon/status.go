package daemon

import (
	"fmt"
	"strings"
)

// status returns the broker's state as one line for people: how far startup is, what is served, and
// which findings there are.
func (b *Broker) status() string {
	report := b.health.Last()
	if !report.Ready {
		return oneLine(report.Text())
	}
	// The broker is ready, so its components are complete.
	text := fmt.Sprintf("serving %d partitions on %s", len(b.components.storage.Logs()), strings.Join(b.Addrs(), ", "))
	if s := b.components.server.Load(); s != nil {
		text += fmt.Sprintf(", %d connections", s.Stats().Connections)
	}
	if _, weak, _ := strings.Cut(report.Text(), "\n"); weak != "" {
		text += "; " + oneLine(weak)
	}
	return text
}

// watchedDirs returns the log directories of a broker that is ready.
func (b *Broker) watchedDirs() []watchedDir {
	dirs := b.components.storage.Dirs()
	all := make([]watchedDir, len(dirs))
	for i, d := range dirs {
		all[i] = d
	}
	return all
}

// oneLine joins lines for messages that must be one line.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
