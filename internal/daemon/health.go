package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
)

// healthBody bounds what is read of an answer, in bytes.
const healthBody = 16 << 10

// healthCommand asks a running broker how it is, for a container's health check
// and for scripts.
func (c *commandLine) healthCommand() *cobra.Command {
	var (
		live    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the broker of this configuration whether it is ready", Args: noArgs,
		Long: "health asks the admin port that this configuration names (admin.listen) whether the broker serves clients, and prints what\n" +
			"it answers. It exits with 0 if the broker is ready, with 1 if it is not or does not answer, with 2 if the configuration is\n" +
			"wrong or has no admin port. With --live a broker that recovers or drains is well, too: it asks only whether it is alive.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.health(cmd.Context(), live, timeout) },
	}
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process is alive, not whether it serves")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "longest time to wait for the answer")
	return cmd
}

func (c *commandLine) health(ctx context.Context, live bool, timeout time.Duration) error {
	if timeout <= 0 {
		return &ExitError{ExitUsage, fmt.Errorf("--timeout %v is no time to wait; write for example 5s", timeout)}
	}
	cfg, err := Load(c.input())
	if err != nil {
		return &configError{err}
	}
	if cfg.AdminListen == "" {
		return &ExitError{ExitUsage, errors.New("admin.listen is off: there is no port to ask; set it to HOST:PORT")}
	}
	path := "/readyz"
	if live {
		path = "/healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, body, err := ask(ctx, "http://"+dialable(cfg.AdminListen)+path)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no broker answers at %s: nothing came within %v (--timeout); is admin.listen the same as the broker's own? If it is, the broker hangs: its log says more", cfg.AdminListen, timeout)
	}
	if err != nil {
		return fmt.Errorf("no broker answers at %s: %w; is it running, and is admin.listen the same as its own?", cfg.AdminListen, cause(err))
	}
	if status == http.StatusNotFound {
		return fmt.Errorf("%s answers, but no broker of chronik; is admin.listen the same as the broker's own?", cfg.AdminListen)
	}
	if status != http.StatusOK {
		return errors.New(oneLine(body))
	}
	_, err = fmt.Fprintln(c.Out, oneLine(body))
	return err
}

// ask is one GET. A broker on this machine is asked without a proxy.
func ask(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, healthBody))
	return resp.StatusCode, string(b), err
}

// dialable is the address to dial for one that is listened on: all addresses of
// the machine are reached at its own.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
