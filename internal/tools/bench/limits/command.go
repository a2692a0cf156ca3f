package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `limits`.
func Command() *cobra.Command {
	d := bench.Default()
	echo, disk, noEcho := EchoConfig{Topic: d.Topic}, DiskConfig{}, false
	cmd := frame.Command("limits", "Measure this machine's limits: a TCP echo and the disk's fdatasync",
		"limits measures a bare TCP echo with the requests, responses and connections of a benchmark (clients own: each connection has one\n"+
			"raw request in flight), and with --dir the disk: writes of 4 KiB, 64 KiB and 1 MiB, each followed by fdatasync, over blocks that have\n"+
			"been written before and at the end of a growing file. With --disk-rate, writes begin at fixed times. The echo server is a separate\n"+
			"process.",
		func(ctx context.Context, _ io.Writer) (*Result, error) {
			if noEcho && disk.Dir == "" {
				return nil, cli.Usage("nothing to measure: add --dir, or remove --no-echo")
			}
			// A measurement takes seconds, so both settings come first, used or not.
			if err := errors.Join(echo.check(), disk.check()); err != nil {
				return nil, cli.WithCode(cli.ExitUsage, err)
			}
			r := &Result{Measured: time.Now()}
			var err error
			if !noEcho {
				r.Echo, err = Echo(ctx, echo)
			}
			if disk.Dir != "" && err == nil {
				r.Disk, err = Disk(ctx, disk)
			}
			return r, err
		})
	f := cmd.Flags()
	f.StringVar(&disk.Dir, "dir", "", "directory on the disk to measure; without it only the echo is measured")
	f.DurationVar(&disk.Duration, "disk-duration", 2*time.Second,
		"time spent writing and syncing for each size and pattern, "+settings.Positive)
	f.Int64Var(&disk.FileSize, "file-size", DefaultFileSize, "maximum size of each of the two files in bytes, "+
		settings.Range(groupSize, int64(largestFile)))
	f.IntSliceVar(&disk.Sizes, "disk-sizes", nil,
		"bytes of each write, "+settings.Range(1, groupSize)+" (default 4096,65536,1048576)")
	f.StringVar(&disk.Pattern, "disk-pattern", "", "only the blocks that are written again (written), or only a growing file (appending)")
	f.Float64Var(&disk.Rate, "disk-rate", 0, "writes per second, times counted from when they were due, "+diskRates().String())
	f.BoolVar(&noEcho, "no-echo", false, "measure only the disk")
	f.IntVarP(&echo.Connections, "concurrency", "c", 128, "connections of the echo, "+settings.Range(1, bench.MaxConcurrency))
	f.IntVar(&echo.Pipeline, "pipeline", 1, "requests in flight on each connection, "+settings.Range(1, bench.MaxPipeline))
	f.IntVarP(&echo.MessageSize, "message-size", "s", d.MessageSize,
		"size of the value in each request in bytes, to which Kafka's Produce adds its headers, "+settings.Range(0, largestFrame/2))
	echo.Interval.Bind(f, " of the echo", 5*time.Second, 2*time.Second)
	return cmd
}

// EchoServerCommand returns the hidden command `echo-server`, which StartServer runs.
func EchoServerCommand() *cobra.Command {
	var listen, topic string
	var untilEOF bool
	cmd := &cobra.Command{
		Use:    serverName,
		Short:  "Respond to frames with frames, until interrupted",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
			if err != nil {
				return cli.Usage("echo server: --listen: %w; choose a free port of this machine", err)
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s%v\n", announce, l.Addr()); err != nil {
				l.Close()
				return fmt.Errorf("print the address of the echo server: %w", err)
			}
			if untilEOF {
				// The goroutine ends with standard input, which is what ends the process.
				go func() {
					defer cancel()
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // an error is also an end
				}()
			}
			return Serve(ctx, l, answerTo(topic))
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "HOST:PORT to listen on")
	f.StringVar(&topic, "topic", bench.Default().Topic, "topic of the responses")
	f.BoolVar(&untilEOF, "until-eof", false, "end when standard input does")
	return cmd
}
