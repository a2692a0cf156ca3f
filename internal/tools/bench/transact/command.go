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
	c, b := Config{A: Side{Name: "A"}}, Side{Name: "B"}
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
			return Measure(ctx, c, func(round int, side string, r *Run) {
				fmt.Fprintf(progress, "round %d  %s  %s\n", round, side, r.Text())
			})
		})
	f := cmd.Flags()
	f.StringSliceVar(&c.A.Brokers, "a", []string{settings.Broker}, "brokers of side A, host:port,…")
	f.StringSliceVar(&b.Brokers, "b", nil, "brokers of side B, host:port,…; without it only A is measured")
	f.StringVar(&c.A.Name, "name-a", c.A.Name, "name of side A")
	f.StringVar(&b.Name, "name-b", b.Name, "name of side B")
	f.IntVar(&c.A.PID, "pid-a", 0, "process id of A's broker on this machine: shows its CPU time for each transaction (Linux)")
	f.IntVar(&b.PID, "pid-b", 0, "process id of B's broker")
	f.StringSliceVar(&c.Loads, "loads", nil, "names of loads: one, ten, hundred, many, batch, plain, latency (default all)")
	f.IntVar(&c.Rounds, "rounds", 3, "number of rounds")
	c.Interval.Bind(f, " of each load", 5*time.Second, time.Second)
	f.IntVarP(&c.Size, "message-size", "s", 256, "size of a record's value in bytes")
	f.BoolVar(&c.Keep, "keep", false, "keep the topics")
	return cmd
}
