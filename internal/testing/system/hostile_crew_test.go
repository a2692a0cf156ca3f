package system

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/hostile"
)

// crew is an attack in a process of its own. The process has a lower priority than broker and
// bystanders, so that its own CPU time is not mistaken for its effect on others.
type crew struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// orders describe an attack to a crew.
type orders struct {
	Attack, Addr      string
	Part, Turns, Most int
	For               time.Duration
}

// outcome is the result of an attack until it ended or its time was over.
type outcome struct {
	Sent     int64
	Outcomes string
	Error    string
}

// attackers start an attack.
func attackers(t *testing.T, o orders) (*crew, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &crew{cmd: exec.Command("nice", "-n", "10", "attacker", string(text))}
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin, c.out = stdin, bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.leave() })
	return c, nil
}

// wait returns when the attack has ended, with its connections still open.
func (c *crew) wait() (outcome, error) {
	var o outcome
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err == nil && o.Error != "" {
		err = errors.New(o.Error)
	}
	return o, err
}

// leave closes the attack's connections and waits until they are closed. Further calls do nothing.
func (c *crew) leave() error {
	if c.cmd.ProcessState != nil {
		return nil
	}
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}

// attacker is a command of its own: it runs one attack, prints its result, and keeps the
// connections until its standard input ends.
func attacker() {
	var o orders
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	all := hostile.Attacks()
	i := slices.IndexFunc(all, func(a hostile.Attack) bool { return a.Name == o.Attack })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "unknown attack %s\n", o.Attack)
		os.Exit(2)
	}
	m := &hostile.Attacker{Addr: o.Addr, Part: o.Part, Turns: o.Turns, Most: o.Most}
	if all[i].TLS {
		m.TLS = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an attacker does not check whom it attacks
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	var done outcome
	if err := all[i].Run(ctx, m); err != nil {
		done.Error = err.Error()
	}
	cancel()
	done.Sent, done.Outcomes = m.Sent(), m.Outcomes()
	if err := json.NewEncoder(os.Stdout).Encode(done); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // waits for its end
	m.Close()
}
