package transact

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `txn`.
func Command() *cobra.Command {
	c, b := Config{A: frame.Side{Brokers: []string{settings.Broker}}}, frame.Side{}
	cmd := frame.Command("txn [--a HOST:PORT] [--b HOST:PORT] [flags]",
		"Measure transactions on one broker, or alternately on two, and print their ratios",
		"txn runs each load on A and, if there is a B, on B, and repeats this for each round. It prints medians and, for two brokers, the\n"+
			"medians of the ratios within a round. Only transactions whose commit was acknowledged count. The clients are kgo's, with a wait of\n"+
			"1 ms before a repetition; brokers choose the version of the protocol. Its topics are deleted afterwards.\n\n"+
			"The load plain is what batch is compared with: as many producers, with as many records in flight each. A producer of batch has a\n"+
			"second request for each 100 records, EndTxn, so its share of plain also depends on the processor time of the clients.",
		func(ctx context.Context, progress io.Writer) (*Result, error) {
			if b.Brokers != nil {
				c.B = &b
			}
			return Measure(ctx, c, func(line string) { fmt.Fprintln(progress, line) })
		})
	f := cmd.Flags()
	frame.BindSides(f, &c.A, &b, "transaction", "; without it only A is measured")
	f.StringSliceVar(&c.Loads, "loads", nil, "names of loads: one, ten, hundred, many, batch, plain, latency (default all)")
	c.Schedule.Bind(f, 3)
	c.Interval.Bind(f, " of each load", 5*time.Second, time.Second)
	f.IntVarP(&c.Size, "message-size", "s", 256, "size of a record's value in bytes")
	f.BoolVar(&c.Keep, "keep", false, "keep the topics")
	return cmd
}
