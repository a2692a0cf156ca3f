package chronikd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/text"
)

// maxHealthBody is the maximum number of bytes that are read of a response.
const maxHealthBody = 16 << 10

// healthCommand queries the health of a running broker, for a container's health check and for
// scripts.
func (c *commandLine) healthCommand() *cobra.Command {
	var (
		live    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the broker of this configuration whether it is ready", Args: noArgs,
		Long: "health asks the admin port that this configuration names (admin.listen) whether the broker serves clients, and prints its\n" +
			"response. It exits with 0 if the broker is ready, with 1 if it is not or does not respond, with 2 if the configuration is\n" +
			"wrong or has no admin port. With --live it succeeds for a broker that recovers or drains, too: the process only has to be alive.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.health(cmd.Context(), live, timeout) },
	}
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process is alive, not whether it serves")
	cli.AtLeast(time.Millisecond).Flag(cmd.Flags(), &timeout, "timeout", "", 5*time.Second, "maximum time to wait for the response")
	return cmd
}

func (c *commandLine) health(ctx context.Context, live bool, timeout time.Duration) error {
	cfg, err := resolve.Load(c.input())
	if err != nil {
		return &configError{err}
	}
	if cfg.AdminListen == "" {
		return exit.With(exit.Usage, errors.New("admin.listen is off, so there is no port to query; set it to HOST:PORT"))
	}
	path := "/readyz"
	if live {
		path = "/healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at, secured := dialable(cfg.AdminListen)+path, cfg.AdminSecurity.TLS != nil
	status, body, err := 0, "", error(nil)
	if !secured {
		status, body, err = get(ctx, "http://"+at)
	}
	// A health check that is built into an image does not know the file that sets TLS for its
	// broker.
	if secured || status == http.StatusBadRequest {
		status, body, err = get(ctx, "https://"+at)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf(
			"no broker responds at %s: no response within %v (--timeout); check that admin.listen is the broker's own; if it is, the broker hangs: see its log",
			cfg.AdminListen,
			timeout,
		)
	}
	if err != nil {
		return fmt.Errorf(
			"no broker responds at %s: %w; check that it is running and that admin.listen is its own",
			cfg.AdminListen,
			exit.Cause(err),
		)
	}
	if status == http.StatusNotFound {
		return fmt.Errorf("%s responds but is not a chronik broker; check that admin.listen is the broker's own", cfg.AdminListen)
	}
	if status != http.StatusOK {
		return errors.New(cmp.Or(text.OneLine(body), path+" answers "+http.StatusText(status)))
	}
	_, err = fmt.Fprintln(c.Out, text.OneLine(body))
	return err
}

// get sends one GET request. It never uses a proxy, because the broker is on this machine.
func get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: certs.Base()}
	// Any certificate is accepted: it may not name this machine's address, and no secret is sent.
	transport.TLSClientConfig.InsecureSkipVerify = true
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBody))
	return resp.StatusCode, string(b), err
}

// dialable returns the address to dial for an address to listen on: an unspecified host becomes the
// loopback address.
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
