package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Against describes the broker and the machine of a run: a figure means nothing without them.
type Against struct {
	// Broker is the broker's version, empty if its admin port does not report it.
	Broker string `json:"broker,omitempty"`
	// Profile is the topic's durability profile, empty for a broker without profiles.
	Profile string `json:"profile,omitempty"`
	// TLS is the version and cipher suite of TLS, empty without TLS.
	TLS string `json:"tls,omitempty"`
	// Admin is the address of the admin port, empty if none knows this topic.
	Admin string `json:"admin,omitempty"`
	// Syncs is nil without an admin port, or if the broker synced nothing.
	Syncs *Syncs `json:"fdatasyncs,omitempty"`
	// Local reports whether the first broker has a loopback address and so shares the machine.
	Local bool `json:"local"`
	// The machine that generated the load, and its load average over the minute before the run, nil
	// if the system does not report it.
	System string   `json:"system"`
	CPUs   int      `json:"cpus"`
	Load   *float64 `json:"load,omitempty"`
}

// Syncs are the fdatasyncs of the broker's journals during the measured interval, for all topics
// together.
type Syncs struct {
	PerSecond float64 `json:"per_second"`
	// Mean is the mean duration of an fdatasync.
	Mean time.Duration `json:"mean_ns"`
	// Records is the mean number of records that an fdatasync made durable.
	Records float64 `json:"records"`
}

// profileConfig is the config of a chronik topic that defines when a record is acknowledged.
const profileConfig = "chronik.durability.profile"

// Admin ports.
const (
	adminPort = "9644" // chronikd's default
	adminOff  = "off"
	askTime   = 2 * time.Second
	maxAnswer = 64 << 20 // bytes
)

// against queries the subject of the run. It leaves out unavailable facts, except for an admin port
// that a flag names.
func (t *topic) against(ctx context.Context) (*Against, *admin, error) {
	a := &Against{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Load: loadAverage()}
	host, _, _ := net.SplitHostPort(t.config.Brokers[0]) // checked by Complete
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		a.Local = true
	}
	if t.secure != nil {
		a.TLS = cipher(ctx, t.config.Brokers, t.secure)
	}
	adm := kadm.NewClient(t.client)
	if configs, err := adm.DescribeTopicConfigs(ctx, t.config.Topic); err == nil {
		for _, c := range configs {
			for _, x := range c.Configs {
				if x.Key == profileConfig {
					a.Profile = x.MaybeValue()
				}
			}
		}
	}
	at := t.config.Admin
	if at == adminOff {
		return a, nil, nil
	}
	named := at != ""
	if !named {
		at = net.JoinHostPort(host, adminPort)
	}
	port := &admin{base: "http://" + at}
	topics, err := adm.ListTopics(ctx, t.config.Topic)
	if err == nil {
		id := topics[t.config.Topic].ID
		err = port.knows(ctx, t.config.Topic, base64.RawURLEncoding.EncodeToString(id[:]))
	}
	switch {
	case err == nil:
		a.Admin = at
		return a, port, nil
	case named:
		return nil, nil, fmt.Errorf("--admin %s: %w; name the admin port of the measured broker, or off", at, err)
	}
	return a, nil, nil
}

// cipher returns the version and the cipher suite of TLS with the first broker that answers, empty
// if none does. One that hangs costs askTime.
func cipher(ctx context.Context, brokers []string, secure *tls.Config) string {
	for _, at := range brokers {
		one, stop := context.WithTimeout(ctx, askTime)
		conn, err := wire.Dial(one, at, secure)
		stop()
		if err == nil {
			_ = conn.Close() // nothing was sent
			return conn.Cipher()
		}
	}
	return ""
}

// errUnknown is returned for a topic that the broker does not have.
var errUnknown = errors.New("not found")

// admin is the admin port of a chronik broker; nil means none.
type admin struct{ base string }

// counters are totals of a broker since its start.
type counters struct {
	version        string
	syncs, records float64
	seconds        float64 // spent in syncs
}

// knows fails unless the port belongs to a broker with this very topic: another broker on the same
// machine may use the default port.
func (p *admin) knows(ctx context.Context, topic, id string) error {
	var answer struct {
		Logs []struct {
			TopicID string `json:"topicId"`
		} `json:"logs"`
	}
	err := p.get(
		ctx,
		"/v1/logs?limit=1&topic="+url.QueryEscape(topic),
		func(r io.Reader) error { return json.NewDecoder(r).Decode(&answer) },
	)
	if errors.Is(err, errUnknown) || err == nil && (len(answer.Logs) == 0 || answer.Logs[0].TopicID != id) {
		return fmt.Errorf("the broker there has no topic %s, or a different topic of this name", topic)
	}
	return err
}

// count reads the counters.
func (p *admin) count(ctx context.Context) (c counters, err error) {
	if p == nil {
		return c, nil
	}
	err = p.get(ctx, "/metrics", func(r io.Reader) error {
		c, err = readCounters(r)
		return err
	})
	return c, err
}

func (p *admin) get(ctx context.Context, path string, read func(io.Reader) error) error {
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("admin port %s: %w", p.base, err)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("admin port: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return errUnknown
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("admin port %s%s: status %s", p.base, path, resp.Status)
	}
	if err := read(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return fmt.Errorf("admin port %s%s: %w", p.base, path, err)
	}
	return nil
}

// readCounters sums the known series in Prometheus's text format over all directories.
func readCounters(r io.Reader) (c counters, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		labels, value, _ := strings.Cut(rest, "} ")
		var into *float64
		switch name {
		case "chronik_build_info":
			_, version, _ := strings.Cut(labels, `version="`)
			c.version, _, _ = strings.Cut(version, `"`)
			continue
		case "chronik_commit_group_sync_seconds_sum":
			into = &c.seconds
		case "chronik_commit_group_sync_seconds_count":
			into = &c.syncs
		case "chronik_commit_group_records_sum":
			into = &c.records
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return c, fmt.Errorf("series %s: %w", name, err)
		}
		*into += n
	}
	return c, lines.Err()
}

// syncsBetween returns the difference between two readings; nil if there were no syncs.
func syncsBetween(from, until counters, elapsed time.Duration) *Syncs {
	n := until.syncs - from.syncs
	if n <= 0 || elapsed <= 0 {
		return nil
	}
	mean := (until.seconds - from.seconds) / n
	return &Syncs{PerSecond: n / elapsed.Seconds(), Mean: time.Duration(mean * float64(time.Second)),
		Records: (until.records - from.records) / n}
}

// loadAverage returns the load average of the last minute, nil if Linux's file does not exist.
func loadAverage() *float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return nil
	}
	return &n
}
