package doctor

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/ctl/adminport"
)

// broker takes over what a chronik broker finds wrong with itself and its machine,
// and returns its id; -1 where none answers.
func (x *examination) broker(ctx context.Context) int32 {
	var found *adminport.Findings
	ask := func() (err error) { found, err = x.port.Findings(ctx); return err }
	if x.probe {
		ask = func() (err error) { found, err = x.port.Probe(ctx); return err }
	}
	if !x.Ask(x.port, ask) {
		return -1
	}
	for _, f := range found.Findings {
		x.Add(f.Severity, f.Subject, f.What, f.Remedy)
	}
	for _, c := range found.Checks {
		for _, saw := range c.Saw {
			x.Looked(fmt.Sprintf("broker %d, %s: %s", found.Broker, c.Name, saw))
		}
	}
	return found.Broker
}
