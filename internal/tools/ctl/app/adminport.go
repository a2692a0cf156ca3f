package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/text"
)

// Bounds of a request.
const (
	askTime   = 5 * time.Second
	maxAnswer = 64 << 20    // bytes
	maxSaid   = 200         // bytes of a text that is shown as an error
	probeTime = time.Minute // for measuring disks
)

// ErrNoAdminPort means that no connection to the admin port can be opened, or that the port does
// not know the request or answers in another format. Then it belongs to another kind of broker, or
// to an older version.
var ErrNoAdminPort = errors.New("no admin port of chronik answers there")

// AdminPort is the HTTP port of a chronik broker with what Kafka's protocol does not carry;
// docs/admin.md describes it. Answers are bounded in size and time. No request changes the broker.
// If the settings name those of several brokers, the first that answers is used from then on: what
// one command shows is of one broker.
type AdminPort struct {
	bases  []string     // URLs, in order
	chosen atomic.Int32 // 1 more than the index of the one that has answered; 0 for none yet
	client http.Client
	// Named reports whether the settings name the port. Otherwise it is the default address, where
	// there may be no admin port.
	Named bool

	token secret.Secret
	err   error // a file of the settings cannot be used: no request is sent
}

// AdminPortOf returns the admin port in the settings, or nil if it is off. The default address
// belongs to a broker with default settings on this machine, so AdminPortOf returns it only if the
// broker also has its default address.
func AdminPortOf(a *App) *AdminPort {
	at := a.Settings.Get(contexts.Admin)
	named := a.Settings.Source(contexts.Admin) != "default"
	if at == contexts.Off || !named && !onThisHost(a.Settings.Seeds()) {
		return nil
	}
	transport := &http.Transport{DisableKeepAlives: true}
	p := &AdminPort{Named: named, client: http.Client{Timeout: min(askTime, a.Settings.Timeout()), Transport: transport}}
	for _, one := range strings.Split(at, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "http://" + one
		}
		p.bases = append(p.bases, strings.TrimRight(one, "/"))
	}
	if transport.TLSClientConfig, p.err = a.Settings.TLSConfig(); p.err == nil {
		p.token, p.err = a.Settings.AdminToken()
	}
	for _, base := range p.bases {
		if u, err := url.Parse(base); p.err == nil && p.token.Len() > 0 && err == nil && u.Scheme != "https" && !Loopback(u.Hostname()) {
			p.err = fmt.Errorf("%s: the token would be sent in clear to %s; write https://%s", a.Settings.Source(contexts.AdminTokenFile),
				u.Host, u.Host)
		}
	}
	return p
}

// NoAdminPort returns why nothing is known that only the admin port shows. It is the end of a
// sentence.
func NoAdminPort(a *App) string {
	switch p := AdminPortOf(a); {
	case p != nil:
		return "because no admin port answers at " + p.String()
	case a.Settings.Get(contexts.Admin) == contexts.Off:
		return "because the admin port is off (" + a.Settings.Source(contexts.Admin) + "); --admin HOST:PORT names that of a broker"
	}
	return "without --admin"
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func onThisHost(seeds []string) bool {
	for _, at := range seeds {
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			host, port = at, "9092"
		}
		if port != "9092" || !Loopback(host) {
			return false
		}
	}
	return true
}

// Addresses returns how many addresses the settings name.
func (p *AdminPort) Addresses() int { return len(p.bases) }

// String returns the URL of the port that has answered, or before that those of all.
func (p *AdminPort) String() string {
	if n := p.chosen.Load(); n > 0 {
		return p.bases[n-1]
	}
	return strings.Join(p.bases, ", ")
}

// get requests a path and decodes the answer into v.
func (p *AdminPort) get(ctx context.Context, path string, v any) error {
	return p.do(ctx, &p.client, http.MethodGet, path, v)
}

// do sends a request and decodes its JSON answer into v.
func (p *AdminPort) do(ctx context.Context, client *http.Client, method, path string, v any) error {
	body, err := p.ask(ctx, client, method, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s%s: the answer is not chronik's (%w): %w", p, path, err, ErrNoAdminPort)
	}
	return nil
}

// Text requests a path and returns the body of the answer.
func (p *AdminPort) Text(ctx context.Context, path string) ([]byte, error) {
	return p.ask(ctx, &p.client, http.MethodGet, path)
}

// unreached is the error of an address where nothing answers: its broker is down, or it is wrong.
type unreached struct {
	error
	brief string // without the remedy
}

func (u unreached) Unwrap() error { return u.error }

// Unreached reports whether an error means that nothing answers at the address of an admin port.
func Unreached(err error) bool { return errors.As(err, new(unreached)) }

// send sends a request to the admin port that has answered before. If there is none yet, or nothing
// answers there any more, it tries the others in order.
func (p *AdminPort) send(ctx context.Context, client *http.Client, method, path string) (base string, resp *http.Response, err error) {
	order := make([]int, len(p.bases))
	for i := range order {
		order[i] = i
	}
	if n := int(p.chosen.Load()); n > 0 {
		order = slices.Insert(slices.Delete(order, n-1, n), 0, n-1)
	}
	if p.err != nil {
		return "", nil, Usage("%w", p.err)
	}
	var silent []string
	absent := true
	for _, i := range order {
		base = p.bases[i]
		resp, err = p.sendTo(ctx, client, method, base, path)
		nothing := unreached{}
		if err == nil || !errors.As(err, &nothing) {
			p.chosen.Store(int32(i + 1)) // something is there
			return base, resp, err
		}
		silent, absent = append(silent, nothing.brief), absent && errors.Is(err, ErrNoAdminPort)
		if ctx.Err() != nil {
			break
		}
	}
	if len(silent) > 1 {
		said := strings.Join(silent, ", ")
		err = fmt.Errorf("no admin port answers: %s; name others with --admin, or turn them off with --admin off", said)
		if absent {
			err = fmt.Errorf("%w: %s; name others with --admin, or turn them off with --admin off", ErrNoAdminPort, said)
		}
		err = unreached{WithCode(ExitUnreachable, err), said}
	}
	return base, nil, err
}

func (p *AdminPort) sendTo(ctx context.Context, client *http.Client, method, base, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("admin port %s: %w", base, err)
	}
	if p.token.Len() > 0 {
		req.Header.Set("Authorization", "Bearer "+string(p.token.Bytes()))
	}
	resp, err := client.Do(req)
	if err == nil {
		return resp, nil
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return nil, unreached{WithCode(ExitUnreachable, fmt.Errorf("%s: %w: %w; name it with --admin, or turn it off with --admin off",
			base, ErrNoAdminPort, op.Err)), fmt.Sprintf("%s: %v", base, op.Err)}
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		if u.Timeout() {
			return nil, unreached{WithCode(ExitUnreachable,
				fmt.Errorf("admin port %s%s: no answer within %v: connected, but nothing answers there; "+
					"a broker that hangs says more in its log, --timeout allows more time", base, path, client.Timeout)),
				fmt.Sprintf("%s: no answer within %v", base, client.Timeout)}
		}
		err = u.Err // url.Error repeats the address
	}
	return nil, WithCode(ExitUnreachable, fmt.Errorf("admin port %s%s: %w; is --admin right?", base, path, err))
}

// ask sends a request and returns the body. A status other than 200 is an error.
func (p *AdminPort) ask(ctx context.Context, client *http.Client, method, path string) ([]byte, error) {
	base, resp, err := p.send(ctx, client, method, path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("admin port %s%s: %w", base, path, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("admin port %s%s: the answer is larger than %d bytes", base, path, maxAnswer)
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	var said struct {
		Error string `json:"error"`
	}
	switch {
	case json.Unmarshal(body, &said) == nil && said.Error != "":
		return nil, fmt.Errorf("admin port %s%s: %s", base, path, said.Error)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s%s: %w", base, path, ErrNoAdminPort)
	}
	// A port that speaks HTTPS says so in a line of text.
	if line := text.OneLine(string(body)); resp.StatusCode == http.StatusBadRequest && line != "" && len(line) <= maxSaid {
		return nil, fmt.Errorf("admin port %s%s: %s", base, path, line)
	}
	return nil, fmt.Errorf("admin port %s%s: status %s", base, path, resp.Status)
}
