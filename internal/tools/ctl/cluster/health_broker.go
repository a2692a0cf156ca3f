package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// examineWithout reports what the admin port knows if no broker answers clients. unanswered is the
// error of the request to them, which it returns if the admin port does not answer either.
func examineWithout(ctx context.Context, a *app.App, f healthFlags, unanswered error) error {
	x := &examination{Checkup: newCheckup(), a: a, port: app.AdminPortOf(a), healthFlags: f}
	if x.port == nil || app.ExitCode(unanswered) == app.ExitUsage {
		return unanswered
	}
	report, err := x.broker(ctx)
	if err != nil {
		if x.port.Named {
			unanswered = errors.Join(unanswered, err)
		}
		return unanswered
	}
	x.Add("clients", health.Bad, "clients", unanswered.Error(),
		"resolve the other findings first; without metadata, only what the admin port reports is known")
	x.adopt("its admin port "+x.port.String(), report)
	x.clock(ctx)
	return x.PrintFindings(a)
}

// broker returns the health report of a chronik broker and adds its checks' measurements to what
// was examined.
func (x *examination) broker(ctx context.Context) (*health.Report, error) {
	ask := x.port.Health
	if x.probe {
		ask = x.port.Probe
	}
	return x.measured(ask(ctx))
}

// listener is broker without an admin port: the listener for clients of the broker that --brokers
// names answers, of several the first one that answered the command. Another broker, which the
// client would choose by chance, may hang, and may not hear that one.
func (x *examination) listener(ctx context.Context) (*health.Report, error) {
	report, err := app.Report(ctx, x.cl.SeedBrokers()[0])
	return x.measured(report, x.a.Throttle.Explain(err))
}

// measured adds the measurements of a report.
func (x *examination) measured(report *health.Report, err error) (*health.Report, error) {
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
