package transact

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `txn`.
func Command() *cobra.Command {
	var c Config
	var b frame.Side
	c.A.Brokers = []string{settings.Broker}
	cmd := frame.Command("txn [--a HOST:PORT] [--b HOST:PORT] [flags]",
		"Measure transactions on one broker, or alternately on two, and print their ratios",
		"txn runs each load on A and, if there is a B, on B, and repeats this for each round. It prints medians and, for two brokers, the\n"+
			"medians of the ratios within a round. Only transactions whose commit was acknowledged count. The clients are kgo's, with a wait of\n"+
			"1 ms before a repetition; brokers choose the version of the protocol. Its topics are deleted afterwards.\n\n"+
			"The load plain is what batch is compared with: as many producers, with as many records in flight each. A producer of batch has a\n"+
			"second request for each 100 records, EndTxn, so its share of plain also depends on the processor time of the clients.",
		func(ctx context.Context, progress io.Writer) (*Result, error) {
			c.Begin(&b)
			return Measure(ctx, c, func(line string) { fmt.Fprintln(progress, line) })
		})
	f := cmd.Flags()
	c.Bind(f, &b, "transaction", "one, ten, hundred, many, batch, plain, latency")
	f.IntVarP(&c.Size, "message-size", "s", 256, "size of a record's value in bytes, "+settings.Range(1, maxSize))
	f.BoolVar(&c.Keep, "keep", false, "keep the topics")
	return cmd
}
