package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// ask runs chronikctl as the administrator at one broker, without an admin port, as the context
// that secure init saves for several brokers has it. It decodes the output; exit code 4 is no
// error.
func (c *securedNodes) ask(ctx context.Context, i int, answer any, args ...string) error {
	password := c.dir + ".password"
	if err := os.WriteFile(password, []byte(adminPassword+"\n"), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "chronikctl", append([]string{"--brokers", c.seeds[i], "--admin", "off",
		"--tls-ca", filepath.Join(c.dir, "ca.pem"), "--sasl", "SCRAM-SHA-512", "--sasl-user", "admin",
		"--sasl-password-file", password, "-o", "json"}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && (exit.ExitCode() != 4 || len(out) == 0) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return json.Unmarshal(out, answer)
}

// Each broker of a secured cluster reports what every broker finds, without an admin port: here
// that a new certificate of the third is not used. top shows all brokers.
func TestEveryBrokerOfASecuredClusterHasTheFindingsOfAll(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	c := newSecuredNodes(t)
	c.expected = append(c.expected, "changed certificate files were not taken")
	c.expected = append(c.expected, othersEnd...)
	c.start(0, 1, 2)
	must.OK(t, os.WriteFile(filepath.Join(c.dir, "node-3", "server.pem"), []byte("cut short"), 0o600))
	must.OK(t, c.run[2].cmd.Process.Signal(syscall.SIGHUP))
	for i := range c.seeds {
		c.eventually("the finding of broker 3", func(ctx context.Context) string {
			var answer struct{ Findings []health.Finding }
			if err := c.ask(ctx, i, &answer, "cluster", "health"); err != nil {
				return err.Error()
			}
			if slices.ContainsFunc(answer.Findings, func(f health.Finding) bool {
				return f.Broker == 3 && f.Check == "certificate" && f.Severity != health.Note
			}) {
				return ""
			}
			return fmt.Sprintf("broker %d reports %+v", i+1, answer.Findings)
		})
	}
	var rates struct {
		Brokers []struct{ RequestsPerSecond *float64 }
	}
	must.OK(t, c.ask(t.Context(), 0, &rates, "top", "--interval", "100ms"))
	if len(rates.Brokers) != 3 || rates.Brokers[0].RequestsPerSecond == nil || rates.Brokers[1].RequestsPerSecond == nil ||
		rates.Brokers[2].RequestsPerSecond == nil {
		t.Errorf("top: %+v", rates.Brokers)
	}
}
