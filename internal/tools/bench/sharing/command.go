package sharing

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `share`.
func Command() *cobra.Command {
	var c Config
	var b frame.Side
	c.A.Brokers = []string{settings.Broker}
	cmd := frame.Command("share [--a HOST:PORT] [--b HOST:PORT] [flags]",
		"Measure share groups on one broker, or alternately on two, and print their ratios",
		"share runs each load on A and, if there is a B, on B, and repeats this for each round. It prints medians and, for two brokers, the\n"+
			"medians of the ratios within a round. The members of one group (KIP-932) poll up to 500 records, accept all of them, and wait for\n"+
			"the answer. Only records whose acknowledgement had no error count. The loads CONSUMERSxPARTITIONS have a backlog of 50,000\n"+
			"records, and the loads paced-… the time from the send of a record to its poll. Topics and groups are deleted afterwards.",
		func(ctx context.Context, progress io.Writer) (*Result, error) {
			c.Begin(&b)
			return Measure(ctx, c, func(line string) { fmt.Fprintln(progress, line) })
		})
	f := cmd.Flags()
	c.Bind(f, &b, "record", "1x1, 10x1, 100x1, 1x100, 10x100, 100x100, and the same after paced-")
	f.IntVarP(&c.Size, "message-size", "s", 256, "size of a record's value in bytes, "+settings.Range(stampSize, maxSize))
	f.IntVar(&c.Rate, "rate", 5000, "records per second of the paced loads, "+settings.Range(1, maxRate))
	f.BoolVar(&c.Keep, "keep", false, "keep the topics and the groups")
	return cmd
}
