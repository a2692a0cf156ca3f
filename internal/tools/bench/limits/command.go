package limits

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
)

// Command returns `limits`.
func Command() *cobra.Command {
	d := bench.Default()
	o := options{
		echo: EchoConfig{
			Connections: 128,
			Pipeline:    1,
			MessageSize: d.MessageSize,
			Topic:       d.Topic,
			Warmup:      2 * time.Second,
			Duration:    5 * time.Second,
		},
		disk: DiskConfig{Duration: 2 * time.Second, FileSize: DefaultFileSize},
	}
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Measure this machine's limits: a TCP echo and the disk's fdatasync",
		Long: "limits measures a bare TCP echo with the requests, responses and connections of a benchmark (clients own: each connection has one\n" +
			"raw request in flight), and with --dir the disk: writes of 4 KiB, 64 KiB and 1 MiB, each followed by fdatasync, over blocks that have\n" +
			"been written before and at the end of a growing file. The echo server is a separate process.",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.measure(cmd.Context())
			if err != nil {
				return err
			}
			if o.json {
				return r.writeJSON(cmd.OutOrStdout())
			}
			return r.Table(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.disk.Dir, "dir", "", "directory on the disk to measure; without it only the echo is measured")
	f.DurationVar(&o.disk.Duration, "disk-duration", o.disk.Duration, "time spent writing and syncing for each size and pattern")
	f.Int64Var(&o.disk.FileSize, "file-size", o.disk.FileSize, "maximum size of each of the two files in bytes")
	f.BoolVar(&o.noEcho, "no-echo", false, "measure only the disk")
	f.IntVarP(&o.echo.Connections, "concurrency", "c", o.echo.Connections, "connections of the echo")
	f.IntVar(&o.echo.Pipeline, "pipeline", o.echo.Pipeline, "requests in flight on each connection")
	f.IntVarP(
		&o.echo.MessageSize,
		"message-size",
		"s",
		o.echo.MessageSize,
		"size of the value in each request in bytes, to which Kafka's Produce adds its headers",
	)
	f.DurationVarP(&o.echo.Duration, "duration", "d", o.echo.Duration, "measured time of the echo")
	f.DurationVar(&o.echo.Warmup, "warmup", o.echo.Warmup, "time before the measured time, not counted")
	f.BoolVar(&o.json, "json", false, "print JSON instead of tables")
	return cmd
}

// options are the flags of `limits`.
type options struct {
	echo         EchoConfig
	disk         DiskConfig
	noEcho, json bool
}

func (o options) measure(ctx context.Context) (*Result, error) {
	if o.noEcho && o.disk.Dir == "" {
		return nil, cli.Usage("nothing to measure: add --dir, or remove --no-echo")
	}
	r := &Result{Measured: time.Now()}
	if !o.noEcho {
		var err error
		if r.Echo, err = Echo(ctx, o.echo); err != nil {
			return nil, err
		}
	}
	if o.disk.Dir != "" {
		var err error
		if r.Disk, err = Disk(ctx, o.disk); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// EchoServerCommand returns the hidden command `echo-server`, which StartServer runs.
func EchoServerCommand() *cobra.Command {
	var listen string
	var response int
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
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // an error is an end, too
				}()
			}
			return Serve(ctx, l, response)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "HOST:PORT to listen on")
	f.IntVar(&response, "response-size", DefaultResponse, "size of each response in bytes")
	f.BoolVar(&untilEOF, "until-eof", false, "end when standard input does")
	return cmd
}
