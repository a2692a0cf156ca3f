package daemon

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// browse sends a request to the admin port as a browser does.
func browse(t *testing.T, b *Broker, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.AdminAddr()+path, http.NoBody)
	must.OK(t, err)
	req.Header.Set("Accept", "text/html")
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return resp.StatusCode, string(body)
}

// onThePage waits until the page shows every finding of the report in the same words and order:
// some of them have numbers that change.
func onThePage(t *testing.T, b *Broker) {
	t.Helper()
	eventually(t, "the page shows the findings", func() bool {
		all := b.health.Report(t.Context()).Findings
		_, body := browse(t, b, "/")
		rest, ok := html.UnescapeString(strings.NewReplacer("<code>", "`", "</code>", "`").Replace(body)), true
		for _, f := range all {
			for _, text := range []string{f.Subject, f.Problem, f.Works, f.Remedy} {
				_, after, found := strings.Cut(rest, text)
				rest, ok = after, ok && found
			}
		}
		return ok &&
			strings.Contains(
				body,
				"<b>Healthy.</b>",
			) == !slices.ContainsFunc(
				all,
				func(f health.Finding) bool { return f.Severity != health.Note },
			)
	})
}

// consumes joins a group, consumes n records and commits them.
func consumes(t *testing.T, b *Broker, ctx context.Context, group, topic string, n int) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(
		kgo.WithContext(ctx),
		kgo.SeedBrokers(b.Addrs()...),
		kgo.ClientID("reader of "+group),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	must.OK(t, err)
	t.Cleanup(c.Close)
	for got := 0; got < n; {
		f := c.PollFetches(t.Context())
		must.OK(t, f.Err())
		got += f.NumRecords()
	}
	must.OK(t, c.CommitUncommittedOffsets(t.Context()))
	return c
}

// The page shows the state of the running broker: topics, their records, configs, groups of both
// protocols, and connections.
func TestThePageShowsTheRunningBroker(t *testing.T) {
	b, _ := startHere(t, vfs.Memory())
	fill(t, b, "orders", 2, 5)
	consumes(t, b, t.Context(), "billing & more", "orders", 10)
	// Another group of the same shard, with the newer protocol.
	shard, _ := b.components.coordinators.Groups.Partition("billing & more")
	twin := ""
	for i := 0; twin == ""; i++ {
		if p, _ := b.components.coordinators.Groups.Partition(fmt.Sprint("twin-", i)); p == shard {
			twin = fmt.Sprint("twin-", i)
		}
	}
	consumes(
		t,
		b,
		context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true), //nolint:staticcheck // kgo's name
		twin,
		"orders",
		10,
	)
	group := "/group?id=" + url.QueryEscape("billing & more")
	for path, want := range map[string][]string{
		"/": {"Last 5 minutes", "nothing acknowledged is lost", b.Addrs()[0], `<a href="/topics">2</a>`,
			`<a href="/groups">2</a>`, "produce arriving"},
		"/topics": {`<a href="/topic?name=orders">orders</a>`, `<td class="num opt">2</td><td class="num">10</td>`, "1 internal topic"},
		"/topic?name=orders": {"<dd>sync</dd>", "<dd>10</dd>", "retention.ms", "604800000", "configs with the default value",
			`/records?last=10&amp;partition=1&amp;topic=orders`},
		"/records?topic=orders&partition=1&last=3": {"3 records", `<span class="offset">4</span>`,
			`<span class="offset">2</span>`, "<pre>k</pre>", "<pre>4</pre>", "offsets 0 to 5"},
		"/records?topic=orders&partition=0": {"5 records", `<span class="offset">0</span>`},
		"/groups":                           {"billing &amp; more", "Stable", "classic", "consumer"},
		group: {"reader of billing &amp; more", "127.0.0.1", "orders 0-1",
			`<td class="num">5</td><td class="num">5</td><td class="num">0</td>`},
		"/group?id=" + twin: {"reader of " + twin, "orders 0-1", "<dd>consumer</dd>"},
		"/connections":      {"reader of " + twin, "kgo", "127.0.0.1:"},
	} {
		code, body := browse(t, b, path)
		body = strings.ReplaceAll(body, "\n", "") // between cells
		for _, text := range want {
			if code != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: %d, no %q in\n%s", path, code, text, body)
			}
		}
	}
	if _, body := browse(t, b, group); strings.Count(body, `<a href="/topic?name=orders">`) != 2 {
		t.Errorf("the offsets are not those of two partitions: %s", body)
	}
	for path, want := range map[string]int{"/topic?name=none": 404, "/group?id=none": 404,
		"/records?topic=none&partition=0": 404, "/records?topic=orders&partition=2": 404} {
		if code, body := browse(t, b, path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	const middle = "/records?topic=orders&partition=0&last=2&from=1"
	if _, body := browse(t, b, middle); strings.Contains(body, `<span class="offset">0</span>`) ||
		!strings.Contains(body, `<span class="offset">1</span>`) || !strings.Contains(body, `<span class="offset">2</span>`) ||
		strings.Contains(body, `<span class="offset">3</span>`) || !strings.Contains(body, ">Newer<") {
		t.Error("not the records 1 and 2:\n" + body)
	}
	for at, n := range map[string]string{"2001-01-01": "5 records", "2999-01-01T00:00": "0 records"} {
		if _, body := browse(t, b, "/records?topic=orders&partition=0&at="+at); !strings.Contains(body, n) {
			t.Errorf("at %s: no %q", at, n)
		}
	}
	if _, body := browse(t, b, "/records?topic=orders&partition=0&last=3"); strings.Contains(body, `<span class="offset">1</span>`) {
		t.Error("more records than were asked for")
	}
	unread := &kgo.Record{Topic: "orders", Value: []byte("nobody has read it")}
	must.OK(t, client(t, b).ProduceSync(t.Context(), unread).FirstErr())
	agreeing(t, b)
}

// The overview has the requests that wait for the broker, not those that wait as their clients ask.
func TestThePageShowsTheOldestWaitingRequests(t *testing.T) {
	b, _ := startHere(t, vfs.Memory(), "group.initial.rebalance.delay.ms=600000")
	fill(t, b, "orders", 1, 1)
	client := func(opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
		must.OK(t, err)
		t.Cleanup(c.Close)
		return c
	}
	client(kgo.ClientID("a reader"), kgo.ConsumeTopics("orders"), kgo.FetchMaxWait(time.Minute),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	member := client(kgo.ClientID("a member"))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.InstanceID, join.ProtocolType = "billing", kmsg.StringPtr("i"), "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	var joins sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	joins.Go(func() { _, _ = member.Request(ctx, join) })
	defer joins.Wait()
	defer leave()
	eventually(t, "a request of each kind waits", func() bool {
		all := b.Waits(10)
		return all.Idle > 0 && slices.ContainsFunc(all.List, func(w view.Wait) bool {
			return len(w.Steps) > 0 && w.Steps[0].Step == view.StepGroup
		})
	})
	_, body := browse(t, b, "/")
	_, list, _ := strings.Cut(body, `<h2 id="waits">`)
	list, _, _ = strings.Cut(list, "</section>")
	for _, text := range []string{"a member", "<td>JoinGroup</td>", "the other members of group billing"} {
		if !strings.Contains(list, text) {
			t.Errorf("no %q in %s", text, list)
		}
	}
	if strings.Contains(list, "a reader") {
		t.Errorf("it shows a fetch that waits as its client asks: %s", list)
	}
}
