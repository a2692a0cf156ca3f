package limits

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"
)

// EchoServerCommand is the hidden command `echo-server`: what StartServer starts.
func EchoServerCommand() *cobra.Command {
	var listen string
	var response int
	var untilEOF bool
	cmd := &cobra.Command{
		Use:    serverName,
		Short:  "Answer frames with frames, until interrupted",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
			if err != nil {
				return fmt.Errorf("echo server: %w", err)
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s%v\n", announce, l.Addr()); err != nil {
				l.Close()
				return fmt.Errorf("say where the echo server listens: %w", err)
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
	f.StringVar(&listen, "listen", "127.0.0.1:0", "HOST:PORT to listen at")
	f.IntVar(&response, "response-size", DefaultResponse, "bytes of each answer")
	f.BoolVar(&untilEOF, "until-eof", false, "end when standard input does")
	return cmd
}
