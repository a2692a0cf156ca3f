package daemon

import (
	"fmt"
	"strings"

	"github.com/chronik-io/chronik/internal/storage"
)

// Status returns the broker's state as one line for people: how far startup is, what is served, and
// which findings there are.
func (b *Broker) Status() string {
	report := b.health.Last()
	if !report.Ready {
		return report.Line()
	}
	// The broker is ready, so its components are complete.
	line := fmt.Sprintf("serving %d partitions on %s", len(b.components.storage.Logs()), strings.Join(b.Addrs(), ", "))
	if s := b.components.server.Load(); s != nil {
		line += fmt.Sprintf(", %d connections", s.Stats().Connections)
	}
	if _, weak, _ := strings.Cut(report.Line(), "; "); weak != "" {
		line += "; " + weak
	}
	return line
}

// Moves grows with every sign of progress of the start.
func (b *Broker) Moves() uint64 { return b.health.Moves() }

// Dirs returns the log directories of a broker that serves clients.
func (b *Broker) Dirs() []*storage.Dir { return b.components.storage.Dirs() }
