package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// maxConnections is the config of brokers below whose number no new connection is served.
const maxConnections = "max.connections"

// limitsConnections returns the number of connections that an edit of brokers sets.
func (d *Edit) limitsConnections(e Entity) (most int, ok bool) {
	if e.Kind != kmsg.ConfigResourceTypeBroker || d.values[maxConnections] == "" {
		return 0, false
	}
	most, err := strconv.Atoi(d.values[maxConnections])
	return most, err == nil
}

// crowd adds the brokers that have as many connections as they may have after the edit, or more:
// they would refuse all new ones.
func (l *loss) crowd(ctx context.Context, cl *kgo.Client, e Entity, most int) {
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		l.unknown = append(l.unknown, app.Refused("list brokers", err, ""))
		return
	}
	for _, id := range slices.Sorted(slices.Values(brokers.NodeIDs())) {
		if e.Name != "" && e.Name != strconv.Itoa(int(id)) {
			continue
		}
		report, err := app.ReportOf(ctx, cl, id)
		switch {
		case errors.Is(err, app.ErrNoReport), err == nil && report.Load == nil: // it is of another kind
		case err != nil:
			l.uncounted = append(l.uncounted, fmt.Sprintf("broker %d (%s)", id, text.OneLine(err.Error())))
		case report.Load.Connections >= most:
			l.crowded = append(l.crowded, fmt.Sprintf("broker %d: %s", id, text.Count(report.Load.Connections, "connection")))
		}
	}
}
