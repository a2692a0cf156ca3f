package cluster

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/health"
)

// broker returns the health report of a chronik broker and adds its checks' measurements to what
// was examined.
func (x *examination) broker(ctx context.Context) (*health.Report, error) {
	ask := x.port.Health
	if x.probe {
		ask = x.port.Probe
	}
	report, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range report.Checks {
		for _, saw := range c.Saw {
			x.Examined(fmt.Sprintf("broker %d, %s: %s", report.Broker, c.Name, saw))
		}
	}
	return report, nil
}
