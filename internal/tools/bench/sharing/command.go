package sharing

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `share`.
func Command() *cobra.Command {
	c, b := Config{A: frame.Side{Brokers: []string{settings.Broker}}}, frame.Side{}
	cmd := frame.Command("share [--a HOST:PORT] [--b HOST:PORT] [flags]",
		"Measure share groups on one broker, or alternately on two, and print their ratios",
		"share runs each load on A and, if there is a B, on B, and repeats this for each round. It prints medians and, for two brokers, the\n"+
			"medians of the ratios within a round. The members of one group (KIP-932) poll up to 500 records, accept all of them, and wait for\n"+
			"the answer. Only records whose acknowledgement had no error count. The loads CONSUMERSxPARTITIONS have a backlog of 50,000\n"+
			"records, and the loads paced-… the time from the send of a record to its poll. Topics and groups are deleted afterwards.",
		func(ctx context.Context, progress io.Writer) (*Result, error) {
			if b.Brokers != nil {
				c.B = &b
			}
			return Measure(ctx, c, func(line string) { fmt.Fprintln(progress, line) })
		})
	f := cmd.Flags()
	frame.BindSides(f, &c.A, &b, "record", "; without it only A is measured")
	f.StringSliceVar(&c.Loads, "loads", nil,
		"names of loads: 1x1, 10x1, 100x1, 1x100, 10x100, 100x100, and the same after paced- (default all)")
	c.Schedule.Bind(f, 3)
	c.Interval.Bind(f, " of each load", 5*time.Second, time.Second)
	f.IntVarP(&c.Size, "message-size", "s", 256, "size of a record's value in bytes")
	f.IntVar(&c.Rate, "rate", 5000, "records per second of the paced loads")
	f.BoolVar(&c.Keep, "keep", false, "keep the topics and the groups")
	return cmd
}
