package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/cli/seeds"
	"github.com/chronik-io/chronik/internal/pause"
)

// dialTime bounds the wait for the first answer, so that a command fails quickly if there is no
// broker.
const dialTime = 10 * time.Second

// FreshAge is how old the metadata may be that a command shows: by default the library keeps them
// for seconds, and a command that waits for a change would not see it.
const FreshAge = 10 * time.Millisecond

// Client connects to a broker and fails quickly if none answers. Later requests wait as long as
// their kind needs, and for a broker that returns: it is for records.
func (a *App) Client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	return a.client(ctx, 0, opts...)
}

// client is Client with a limit on the wait for each answer; 0 means no limit.
func (a *App) client(ctx context.Context, limit time.Duration, opts ...kgo.Opt) (*kgo.Client, error) {
	base, err := clientOptions(a.Settings)
	if err != nil {
		return nil, Usage("%w", err)
	}
	d := &dialer{tcp: a.dial, limit: limit}
	if d.tls, err = a.Settings.TLSConfig(); err != nil {
		return nil, Usage("%w", err)
	}
	timeout := a.Settings.Timeout()
	first := min(timeout, dialTime)
	d.patience.Store(int64(first))
	retries := func(int16) time.Duration { return timeout }
	if limit > 0 {
		retries = func(api int16) time.Duration {
			if api == int16(kmsg.ListGroups) {
				return timeout / listShare
			}
			return timeout / retryShare
		}
		base = append(base, kgo.RetryBackoffFn(backoff), kgo.RequestRetries(math.MaxInt32)) // as many as the time allows
	}
	base = append(base,
		kgo.ClientID("chronikctl"),
		kgo.SoftwareNameAndVersion("chronikctl", SoftwareVersion(a.Version)),
		kgo.RetryTimeoutFn(retries),
		kgo.RecordDeliveryTimeout(max(timeout, time.Second)),
		kgo.RequestTimeoutOverhead(max(first, 100*time.Millisecond)), // the library's minimum
		kgo.Dialer(d.dial),
		kgo.MetadataMinAge(FreshAge),
		kgo.WithHooks(&a.Throttle),
	)
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, first)
	defer cancel()
	probed := a.probeLater(ctx, d, first/2)
	if _, failed := seeds.Reach(ctx, cl, a.Settings.Seeds(), first); failed != nil {
		cl.Close()
		return nil, a.noAnswer(ctx, failed, d, probed, first)
	}
	d.patience.Store(int64(first) / int64(len(a.Settings.Seeds())))
	if limit > 0 {
		d.patience.Store(min(d.patience.Load(), int64(answerTime)))
		d.remembers.Store(true)
	}
	return cl, nil
}

// A request about metadata is repeated for a part of --timeout while a broker asks for that. It
// lasts longer than an election; a broker that is cut off asks for it until the network is
// repaired. The library repeats a list of groups in two ways, one after the other, and a command
// names the brokers whose groups it lacks.
const (
	retryShare = 3
	listShare  = 10
)

// backoff returns the wait after n attempts of a request about metadata that failed. The library's
// own doubles up to 2.5 s, so a command would end seconds after a broker has answered, or after
// refusedFor.
func backoff(n int) time.Duration {
	return min(retryGap<<min(max(n-1, 0), 10), maxRetryGap)
}

// probeResult is what a probe of the brokers' addresses found.
type probeResult struct {
	http   bool   // one speaks HTTP
	starts string // what a broker that starts waits for, after its address; "" for none
}

// probeLater probes the brokers' addresses after some silence. It returns the result before ctx
// ends, so that the error of a first request can name a wrong port, or what a broker waits for.
func (a *App) probeLater(ctx context.Context, d *dialer, silence time.Duration) (result chan probeResult) {
	result = make(chan probeResult, 1)
	go func() {
		t := time.NewTimer(silence)
		defer t.Stop()
		select {
		case <-t.C:
			result <- a.probe(ctx, d)
		case <-ctx.Done():
			result <- probeResult{}
		}
	}()
	return result
}

// probe asks all seeds. One that speaks Kafka's protocol gets no HTTP request, about which it would
// log a warning.
func (a *App) probe(ctx context.Context, d *dialer) (found probeResult) {
	own := &dialer{tcp: a.dial, tls: d.tls}
	own.patience.Store(int64(dialTime))
	var mu sync.Mutex
	a.eachSeed(func(at string) {
		phase, kafka := speaksKafka(ctx, own.dial, at, SoftwareVersion(a.Version))
		web := !kafka && !a.Settings.Encrypted() && cli.SpeaksHTTP(ctx, a.dial, at)
		mu.Lock()
		defer mu.Unlock()
		found.http = found.http || web
		if phase != "" {
			found.starts = "the broker at " + at + " serves no clients yet: " + phase
		}
	})
	return found
}

// anySeed reports whether a check succeeds for a seed.
func (a *App) anySeed(check func(at string) bool) bool {
	var one atomic.Bool
	a.eachSeed(func(at string) {
		if check(at) {
			one.Store(true)
		}
	})
	return one.Load()
}

// eachSeed calls ask for all seeds at the same time, as one that hangs uses up its time.
func (a *App) eachSeed(ask func(at string)) {
	var all sync.WaitGroup
	for _, at := range a.Settings.Seeds() {
		all.Go(func() { ask(at) })
	}
	all.Wait()
}

// noAnswer returns the error of seeds of which none answered within the time first, when ctx ended.
// probed receives the result of probeLater.
func (a *App) noAnswer(ctx context.Context, failed []error, d *dialer, probed chan probeResult, first time.Duration) error {
	err := seeds.Join(a.Settings.Seeds(), failed)
	connected, waited := d.connected.Load(), slices.ContainsFunc(failed, seeds.Late)
	var found probeResult
	switch {
	case connected && waited:
		found = <-probed
	case connected:
		found = a.probe(ctx, d)
	}
	if found.http {
		err = errHTTP
	}
	from := fmt.Sprintf("no answer from %s (%s)", strings.Join(a.Settings.Seeds(), ", "), a.Settings.Source(contexts.Brokers))
	if found.starts != "" {
		return WithCode(ExitUnreachable, fmt.Errorf("%s: %s", from, found.starts))
	}
	hung := !slices.ContainsFunc(failed, func(err error) bool { return !seeds.Late(err) })
	if connected && hung && !errors.Is(err, errHTTP) {
		return WithCode(ExitUnreachable, fmt.Errorf("%s within %v: connected, but nothing answers there; a broker that hangs says more in "+
			"its log, one may also let this client wait for a quota or after failed logins, --timeout allows more time", from, first))
	}
	return WithCode(ExitUnreachable, fmt.Errorf("%s: %w; %s", from, err, a.noAnswerRemedy(ctx, err, d.secured.Load())))
}

// errHTTP means that an HTTP server answered.
var errHTTP = errors.New("the server speaks HTTP, not Kafka's protocol")

// noAnswerRemedy returns a remedy if no broker answered. secured reports that a TLS handshake
// succeeded.
func (a *App) noAnswerRemedy(ctx context.Context, err error, secured bool) string {
	if errors.Is(err, errHTTP) {
		return "that may be the admin port: give the address for clients with --brokers"
	}
	if remedy := a.handshakeRemedy(ctx, err, secured); remedy != "" {
		return remedy
	}
	if errors.As(err, new(*net.DNSError)) {
		return "is the name right?"
	}
	return "is it running, and is --brokers right?"
}

// Requests is Client for requests about metadata: each must be answered within --timeout. A broker
// that was silent once counts as silent for as long as the client is used, so that a command whose
// broker is cut off from the others waits for each of them once, not in each of its requests.
func (a *App) Requests(ctx context.Context) (*kgo.Client, error) {
	return a.client(ctx, a.Settings.Timeout())
}

// Connect is Requests with the client library's administration.
func (a *App) Connect(ctx context.Context) (*kadm.Client, error) {
	adm, _, err := a.connectBoth(ctx)
	return adm, err
}

// connectBoth is Connect that also returns the client below.
func (a *App) connectBoth(ctx context.Context) (*kadm.Client, *kgo.Client, error) {
	cl, err := a.Requests(ctx)
	if err != nil {
		return nil, nil, err
	}
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(min(a.Settings.Timeout().Milliseconds(), math.MaxInt32)))
	return adm, cl, nil
}

// SoftwareVersion replaces characters that KIP-511 does not allow: it allows letters, digits, dots
// and dashes.
func SoftwareVersion(v string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, v)
	if clean = strings.Trim(clean, ".-"); clean == "" {
		return "unknown"
	}
	return clean
}

// retryGap is the wait before a request is repeated for the first time, and before a coordinator is
// asked again; maxRetryGap is the longest.
const (
	retryGap    = 100 * time.Millisecond
	maxRetryGap = 400 * time.Millisecond
)

// WhenReady retries ask while the coordinator of a group or of a transaction is being found or
// loaded, as long as requests are repeated.
func (a *App) WhenReady(ctx context.Context, ask func() error) error {
	return while(ctx, a.Settings.Timeout()/retryShare, NotReady, ask)
}

// While retries ask while it returns an error for which again reports true, up to --timeout. Then
// it returns the last error.
func (a *App) While(ctx context.Context, again func(error) bool, ask func() error) error {
	return while(ctx, a.Settings.Timeout(), again, ask)
}

func while(ctx context.Context, most time.Duration, again func(error) bool, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		err := ask()
		if !again(err) {
			return err
		}
		if pause.Sleep(ctx, retryGap) != nil {
			return err
		}
	}
}

// NotReady reports whether an error means that a coordinator is being found or loaded.
func NotReady(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) ||
		errors.Is(err, kerr.NotCoordinator)
}
