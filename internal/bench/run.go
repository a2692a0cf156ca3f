package bench

import "context"

// Run makes one run: it prepares the topic, warms up, measures, and verifies what
// was acknowledged if it is to. An error says that there is no result at all;
// failures of single requests are in the Result. When ctx ends first the Result is
// of the shorter interval.
func Run(ctx context.Context, c Config, progress Progress) (*Result, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	return run(ctx, c, progress)
}
