package limits

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is its own echo server, as chronik-bench is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serverName {
		cmd := EchoServerCommand()
		cmd.SetArgs(os.Args[2:])
		if err := cmd.ExecuteContext(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
