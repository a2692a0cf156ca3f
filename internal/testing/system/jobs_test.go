package system

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// ctl runs chronikctl with an operator's yes, against the brokers that run, and returns its exit
// code and what it printed.
func (c *nodes) ctl(ctx context.Context, line string) (code int, text string) {
	var running []string
	for i, p := range c.run {
		if p != nil {
			running = append(running, c.seeds[i])
		}
	}
	var out, errs bytes.Buffer
	code = ctl.Main(ctx, append(strings.Fields(line), "--yes", "--admin", "off"), "test", ctl.Streams{In: strings.NewReader(""), Out: &out,
		Err: &errs, Getenv: func(name string) string { return map[string]string{"CHRONIKCTL_BROKERS": strings.Join(running, ",")}[name] }})
	return code, out.String() + errs.String()
}

// does runs chronikctl until it succeeds and prints some text.
func (c *nodes) does(line, want string) {
	c.t.Helper()
	c.eventually("chronikctl "+line, func(ctx context.Context) string {
		if code, text := c.ctl(ctx, line); code != 0 || !strings.Contains(text, want) {
			return fmt.Sprintf("code %d, %q is not in: %s", code, want, text)
		}
		return ""
	})
}

// refusesTo runs a command that must fail at once, with some text.
func (c *nodes) refusesTo(line, want string) {
	c.t.Helper()
	if code, text := c.ctl(c.t.Context(), line); code == 0 || !strings.Contains(text, want) {
		c.t.Errorf("%s: code %d, %q is not in: %s", line, code, want, text)
	}
}

// A broker that died is replaced by one with another number: its replicas are copied to the others,
// and it is unregistered.
func TestADeadBrokerIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c := newNodes(t, 4)
	c.voters, c.expected = 3, othersEnd
	c.launch(0, 1, 2, 3)
	c.await(0, 1, 2, 3)
	c.does("broker list", "  4  ")
	c.does("topic create t --partitions 4 --replication-factor 3", "t created")
	c.write("t", 4)
	c.refusesTo("broker unregister 4", "broker drain 4 moves them")
	c.does("broker drain 4", "moves 3 partitions")
	c.does("broker drain 4", "broker 4 has no replicas")
	c.eventually("the end of the copies", func(ctx context.Context) string {
		if code, text := c.ctl(ctx, "broker unregister 4"); code != 1 || !strings.Contains(text, "it is active; stop it") {
			return text
		}
		return ""
	})
	c.end(syscall.SIGKILL, 3)
	c.does("broker unregister 4", "broker 4 unregistered")
	c.refusesTo("broker unregister 4", "BROKER_ID_NOT_REGISTERED")
	c.end(syscall.SIGTERM, 0, 1, 2)
}
