package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/view"
)

// handlerOf serves all paths of a page without access control.
func handlerOf(t *testing.T, src Source, h *History) http.Handler {
	t.Helper()
	p := New(src, h)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", p.Overview())
	for _, r := range p.Routes() {
		mux.Handle("GET "+r.Path, r.Handler)
	}
	return mux
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// assetsVersion matches the part of an address that changes with the style and the script.
var assetsVersion = regexp.MustCompile(`\?v=[0-9a-f]{12}`)

// The golden files hold the pages of a broker that is empty, under load, ill in five ways, and
// starting.
func TestPagesMatchTheGoldenFiles(t *testing.T) {
	starting := func() (*fake, *History) {
		f, h := empty()
		f.err, f.broker.Phase, f.broker.Progress = ErrNotServing, "recovering logs", []string{
			"/var/lib/chronik/logs: 12 of 40 journal files",
		}
		return f, h
	}
	for name, broker := range map[string]func() (*fake, *History){"empty": empty, "load": loaded, "ill": ill, "starting": starting} {
		src, history := broker()
		h := handlerOf(t, src, history)
		paths := map[string]string{"overview": "/", "topics": "/topics", "groups": "/groups", "connections": "/connections"}
		if name == "load" || name == "ill" {
			paths["topic"], paths["group"] = "/topic?name=payments", "/group?id=billing"
		}
		if name == "load" {
			paths["records"], paths["refreshing"] = "/records?topic=payments&partition=0&last=2", "/groups?refresh=10"
		}
		for page, path := range paths {
			_, body := get(t, h, path)
			golden.File(
				t,
				filepath.Join("testdata", name+"-"+page+".html"),
				assetsVersion.ReplaceAllString(body, "?v=0"),
				"go test ./internal/admin/page -run Golden",
			)
		}
	}
}

// Problems come before everything else, worst first, each with its remedy.
func TestProblemsComeFirst(t *testing.T) {
	src, history := ill()
	_, body := get(t, handlerOf(t, src, history), "/")
	if !strings.Contains(body, "<title>(5) ") {
		t.Error("the title does not count the problems")
	}
	_, main, _ := strings.Cut(body, `<main id="main"`)
	at := 0
	for _, f := range src.broker.Findings {
		for _, text := range []string{f.Subject, f.Works, f.Remedy} {
			i := strings.Index(main[at:], strings.ReplaceAll(text, "'", "&#39;"))
			if i < 0 {
				t.Fatalf("%q is missing, or comes too late", text)
			}
			at += i
		}
	}
	if plot := strings.Index(main, `class="plots"`); plot < at {
		t.Error("a plot comes before a finding")
	}
	if strings.Contains(body, "Healthy") {
		t.Error("the page reports a healthy broker")
	}
}

// Moves between directories are listed, those first that stand still, and the list is bounded.
func TestMovesAreListed(t *testing.T) {
	src, history := ill()
	arriving := &src.overview.Dirs[0].Arriving
	for i := range maxMoves {
		*arriving = append(*arriving, view.Arrival{Topic: "many", Partition: int32(i), From: "/mnt/b/logs", Size: 1})
	}
	_, body := get(t, handlerOf(t, src, history), "/")
	_, list, _ := strings.Cut(body, "Moves between log directories")
	still, moves := strings.Index(list, "orders-8"), strings.Index(list, "orders-7")
	if still < 0 || moves < still || !strings.Contains(list[still:moves], "stands still: read segment: input/output error") ||
		!strings.Contains(list[moves:], "256 MiB of 1.00 GiB") || strings.Count(list, "many-") != maxMoves-2 ||
		!strings.Contains(list, "2 more") {
		t.Error(list)
	}
	if !strings.Contains(body, "3 partitions move to other brokers") {
		t.Error("moves to other brokers are not counted")
	}
}

// Clients choose names and the content of records.
func TestHostileTextIsOnlyText(t *testing.T) {
	const (
		markup = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` // in texts that the broker itself chooses
		evil   = markup + "\x00\x1b[31m\u202e\xff"
	)
	src, history := loaded()
	src.broker.Findings = []health.Finding{{Severity: health.Bad, Subject: evil, Problem: evil, Works: evil, Remedy: evil}}
	src.broker.Version, src.broker.Addresses = markup, []string{markup}
	src.topics = []view.Topic{{Name: evil, ID: markup, Profile: markup, Offline: 1, Uncovered: 1}}
	src.detail = TopicDetail{
		Topic:      src.topics[0],
		Configs:    []Config{{Name: markup, Value: evil, Default: evil, Source: markup, Doc: markup, Set: true}},
		Partitions: []view.Log{{Dir: evil, Error: evil, HighWatermark: 1}, {Dir: "other"}},
		Findings:   src.broker.Findings,
	}
	src.records.Note = evil
	src.records.List = []Record{
		{Key: []byte(evil), KeySize: len(evil), Value: []byte("<script>alert(3)</script>"), ValueSize: 25, HeaderCount: 1,
			Headers: []Header{{Key: evil, Value: []byte("<img src=x onerror=alert(4)>"), ValueSize: 28}}},
	}
	src.groups = []Group{{Group: view.Group{ID: evil, State: markup, Kind: markup, Assignor: evil,
		Members: []view.GroupMember{{ID: evil, Instance: evil, ClientID: evil, Host: evil, Assigned: map[string][]int32{evil: {1}}}},
		Offsets: []view.GroupOffset{{Topic: evil}}}, Problem: evil, Severity: health.Warn}}
	src.group = GroupDetail{Group: src.groups[0], Findings: src.broker.Findings}
	src.conns = []view.Connection{{ClientID: evil, Address: evil, Software: evil, Listener: evil, Principal: evil}}
	src.overview.Waits = []view.Wait{{ClientID: evil, Address: evil, Request: evil,
		Steps: []view.WaitStep{{Step: view.StepLog, Partition: evil, For: evil}}}}
	src.overview.Snapshots.Service.Failures, src.overview.Snapshots.Service.LastError = 1, evil
	src.overview.Snapshots.Snapshots[1].Damage = evil
	src.overview.Dirs[0].Path, src.overview.Dirs[0].Error = evil, evil
	h := handlerOf(t, src, history)
	asked := "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E%3Cimg+src%3Dx+onerror%3Dalert(2)%3E%27%00%1B%5B31m%E2%80%AE"
	for _, path := range []string{"/", "/topics?filter=" + asked, "/topics?filter=script&sort=" + asked + "&order=" + asked,
		"/topic?name=" + asked,
		"/records?topic=" + asked + "&partition=0", "/records?topic=a&partition=" + asked,
		"/records?topic=a&partition=0&from=" + asked, "/records?topic=a&partition=0&at=" + asked, "/groups", "/groups?filter=" +
			asked, "/group?id=" + asked, "/group?id=x" + asked,
		"/connections", "/connections?filter=" + asked} {
		code, body := get(t, h, path)
		if n := strings.Count(strings.ToLower(body), "<script"); n != 1 || strings.Contains(body, "<img") {
			t.Errorf("%s (%d) has %d scripts:\n%s", path, code, n, body)
		}
		for _, line := range strings.Split(body, "\n") {
			if strings.ContainsAny(line, "\x00\x1b\u202e\ufffd") && !strings.Contains(line, `type="search"`) &&
				!strings.Contains(line, `type="hidden"`) {
				t.Errorf("%s: control characters in %q", path, line)
			}
		}
	}
}

// The headers state everything that a browser may do with the page.
func TestNothingExternalAndNothingInline(t *testing.T) {
	src, history := ill()
	h := handlerOf(t, src, history)
	for _, path := range []string{"/", "/topics", "/topic?name=payments", "/topic?name=none", "/records?topic=a&partition=x",
		"/groups", "/group?id=billing", "/connections",
		"/assets/page.css", "/assets/page.js", "/assets/icon.svg"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		head := w.Header()
		if p := head.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none';") || strings.Contains(p, "unsafe") ||
			!strings.Contains(p, "frame-ancestors 'none'") {
			t.Errorf("%s: %q", path, p)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, head)
		}
		body := w.Body.String()
		for _, bad := range []string{"http://", "https://", "//cdn", " style=", "<style", " onclick", "javascript:"} {
			if strings.HasPrefix(path, "/assets/icon") || !strings.Contains(body, bad) ||
				bad == "http://" && strings.Contains(body, "http://www.w3.org/2000/svg") && strings.Count(body, bad) == 1 {
				continue
			}
			t.Errorf("%s has %s", path, bad)
		}
	}
	for _, path := range []string{"/assets/layout.html", "/assets/", "/assets/..%2fpage.go", "/assets/none"} {
		if code, _ := get(t, h, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// However long a list is, a page of it is small and complete.
func TestLongListsArePaged(t *testing.T) {
	src, history := loaded()
	src.topics, src.groups, src.conns, src.broker.Findings = nil, nil, nil, nil
	for i := range 10_000 {
		src.topics = append(
			src.topics,
			view.Topic{Name: fmt.Sprintf("topic-%05d", (i*7919)%10_000), Partitions: 1, Records: int64(i), Profile: "sync"},
		)
		src.groups = append(src.groups, Group{Group: view.Group{ID: fmt.Sprintf("group-%05d", i), Lag: int64(i)}})
		src.conns = append(src.conns, view.Connection{ID: uint64(i), ClientID: fmt.Sprintf("client-%05d", i)})
		src.broker.Findings = append(src.broker.Findings, health.Finding{Severity: health.Note, Subject: fmt.Sprintf("subject-%05d", i)})
		src.detail.Partitions = append(src.detail.Partitions, view.Log{Partition: int32(i)})
		src.group.Members = append(src.group.Members, view.GroupMember{ID: fmt.Sprintf("member-%05d", i)})
		src.group.Offsets = append(src.group.Offsets, view.GroupOffset{Topic: "t", Partition: int32(i)})
	}
	src.topics[0].Damaged, src.topics[0].Uncovered = 1, 1 // topic-00000, which has the fewest records
	h := handlerOf(t, src, history)
	for path, want := range map[string][]string{
		"/":                           {"subject-00000", "subject-00019", "9,980 further findings"},
		"/topics":                     {"topic-00000", "damaged", "topic-00099", "1–100 of 10000", "page=2"},
		"/topics?page=100":            {"topic-09999", "9901–10000 of 10000", "page=99"},
		"/topics?page=1000000":        {"topic-09999"},
		"/topics?page=-1":             {"topic-00001"},
		"/topics?sort=records":        {"9,999", "1–100 of 10000"},
		"/topics?filter=TOPIC-0123":   {"topic-01230", "1–10 of 10", "topic-01239"},
		"/topics?filter=none":         {"No topic has <b>none</b> in its name"},
		"/groups?page=2":              {"9,899", "101–200 of 10000"},
		"/connections?sort=unknown":   {"client-00099"},
		"/topic?name=payments&page=3": {"201–300 of 10006"},
		"/group?id=billing":           {"9,902 further members", "1–100 of 10002"},
	} {
		code, body := get(t, h, path)
		if code != http.StatusOK || len(body) > 100<<10 {
			t.Errorf("%s: %d, %d bytes", path, code, len(body))
		}
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s has no %q", path, text)
			}
		}
	}
}

// A column's link sorts by it, and a second click reverses the order; filter and page are kept.
func TestListsAreSorted(t *testing.T) {
	src, history := loaded()
	h := handlerOf(t, src, history)
	order := func(path string) string {
		_, body := get(t, h, path)
		var names []string
		for _, m := range regexp.MustCompile(`<th scope="row">(?:<a[^>]*>)?([^<]*)<`).FindAllStringSubmatch(body, -1) {
			names = append(names, m[1])
		}
		return strings.Join(names, " ")
	}
	for path, want := range map[string]string{
		"/topics":                                  "clickstream customers orders payments",
		"/topics?sort=records":                     "clickstream orders payments customers",
		"/topics?sort=records&order=reversed":      "customers payments orders clickstream",
		"/topics?sort=partitions":                  "orders payments clickstream customers",
		"/topics?sort=profile":                     "customers clickstream orders payments",
		"/topics?sort=bytes&internal=show":         "clickstream orders payments customers __consumer_offsets",
		"/groups":                                  "reporting billing search",
		"/groups?sort=id":                          "billing reporting search",
		"/groups?sort=kind":                        "reporting search billing",
		"/connections?sort=in":                     "clickstream orders-api billing-1 sarama",
		"/connections?sort=address&order=reversed": "sarama clickstream orders-api billing-1",
		"/connections?filter=rdkafka":              "billing-1",
		"/connections?sort=last":                   "billing-1 orders-api clickstream sarama",
	} {
		if got := order(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	_, body := get(t, h, "/topics?sort=records&filter=e&page=2")
	for _, link := range []string{`<th scope="col" class="num" aria-sort="descending"><a href="/topics?filter=e&amp;order=reversed&amp;sort=records">`,
		`<a href="/topics?filter=e&amp;sort=bytes">`} {
		if !strings.Contains(body, link) {
			t.Errorf("no %s", link)
		}
	}
}

// A broker that cannot show something explains why.
// Links lead from each part of a partition to the others.
func TestRecordsAreBrowsed(t *testing.T) {
	src, history := loaded()
	h := handlerOf(t, src, history)
	src.records = Records{Start: 100, High: 1000, Next: 530, List: []Record{{Offset: 500}, {Offset: 529}}}
	const older, newer, end = `href="/records?from=480&amp;last=20&amp;partition=0&amp;topic=a">Older<`,
		`href="/records?from=530&amp;last=20&amp;partition=0&amp;topic=a">Newer<`,
		`href="/records?last=20&amp;partition=0&amp;topic=a">Latest<`
	for query, want := range map[string][]string{
		"&from=500": {older, newer, end}, "&at=2026-01-02T15:04": {older, newer, end}, "&at=2026-01-02T15:04:05Z": {older, newer, end},
		"": {older},
	} {
		_, body := get(t, h, "/records?topic=a&partition=0&last=20"+query)
		for _, link := range []string{older, newer, end} {
			if strings.Contains(body, link) != slices.Contains(want, link) {
				t.Errorf("%q: %s: %t", query, link, slices.Contains(want, link))
			}
		}
		if latest := strings.Index(body, ">529<") < strings.Index(body, ">500<"); latest != (query == "") {
			t.Errorf("%q: the latest first: %t", query, latest)
		}
	}
	src.records = Records{Start: 100, High: 1000, Next: 1000, List: []Record{{Offset: 105}, {Offset: 999}}}
	if _, body := get(t, h, "/records?topic=a&partition=0&last=20&from=105"); strings.Contains(body, ">Newer<") ||
		!strings.Contains(body, "from=100&amp;") {
		t.Error("links beyond the partition")
	}
}

func TestErrorsAreExplained(t *testing.T) {
	src, history := loaded()
	h := handlerOf(t, src, history)
	for path, want := range map[string]string{
		"/topic?name=nowhere":                      "404 This broker has no topic &#34;nowhere&#34;",
		"/group?id=":                               "404 This broker coordinates no group",
		"/records?topic=a&partition=x":             "400 partition=x is not the number of a partition",
		"/records?topic=a&partition=-1":            "400 partition=-1",
		"/records?topic=a&partition=0&last=101":    "400 last=101 is not a number from 1 to 100",
		"/records?topic=a&partition=0&last=many":   "400 last=many",
		"/records?topic=a&partition=0&from=-1":     "400 from=-1 is not an offset",
		"/records?topic=a&partition=0&at=noon":     "400 at=noon is not a time",
		"/records?topic=a&partition=4000000000000": "400 partition=4000000000000",
	} {
		code, body := get(t, h, path)
		status, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(code) != status || !strings.Contains(body, text) {
			t.Errorf("%s: %d, no %q in %s", path, code, text, body)
		}
	}
	src.err = fmt.Errorf("%w: draining", ErrNotServing)
	for path, want := range map[string]int{"/": http.StatusOK, "/topics": http.StatusServiceUnavailable,
		"/group?id=a": http.StatusServiceUnavailable} {
		if code, _ := get(t, h, path); code != want {
			t.Errorf("%s of a stopping broker: %d", path, code)
		}
	}
	src.err = fmt.Errorf("a disk that burns")
	for _, path := range []string{"/", "/topics", "/topic?name=payments", "/records?topic=a&partition=0", "/groups",
		"/group?id=billing", "/connections"} {
		if code, body := get(t, h, path); code != http.StatusInternalServerError || !strings.Contains(body, "a disk that burns") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// No lock of the page is held while it calls the source.
func TestNoLockIsHeldDuringCallsOfTheSource(t *testing.T) {
	src, history := loaded()
	p := New(src, history)
	src.asked = func() {
		if !history.mu.TryLock() {
			t.Error("the history is locked")
		} else {
			history.mu.Unlock()
		}
		if !p.rates.mu.TryLock() {
			t.Error("the rates are locked")
		} else {
			p.rates.mu.Unlock()
		}
	}
	for _, h := range append(p.Routes(), Route{Handler: p.Overview()}) {
		h.Handler.ServeHTTP(
			httptest.NewRecorder(),
			httptest.NewRequest("GET", "/?name=payments&id=billing&topic=payments&partition=0", nil),
		)
	}
}

// The overview says of snapshots what an operator must know, also without a good one, without a
// leader of the metadata, and without an object store.
func TestSnapshotsAreShown(t *testing.T) {
	src, history := loaded()
	h := handlerOf(t, src, history)
	all := src.overview.Snapshots
	noted := *snapshotsUntil(view.Snapshots{URL: "file:///x"})
	noted.Snapshots[1].Note = "broker 2: t-1 begins later"
	damaged := *snapshotsUntil(view.Snapshots{URL: "file:///x"})
	damaged.Snapshots[0].Damage, damaged.Snapshots[1].Damage = "gone", "cut short"
	for what, c := range map[string]struct {
		list *view.SnapshotList
		want []string // nil: the page has no row
	}{
		"no store":  {nil, nil},
		"running":   {all, []string{"5 min ago", "2 snapshots in all", "one is being taken since", "3.00 MiB of about 12.0 MiB"}},
		"no leader": {&view.SnapshotList{Snapshots: all.Snapshots, Error: "no broker leads"}, []string{"5 min ago", "no broker leads"}},
		"not set":   {&view.SnapshotList{Service: &view.Snapshots{}}, []string{"none", "archive.url is not set"}},
		"by hand":   {&view.SnapshotList{Service: &view.Snapshots{URL: "file:///x"}}, []string{"none", "there is no schedule"}},
		"fails": {snapshotsUntil(view.Snapshots{URL: "file:///x", Failures: 1, LastError: "it is full"}),
			[]string{"the last attempt failed", "it is full"}},
		"has a note": {&noted, []string{"broker 2: t-1 begins later"}},
		"is damaged": {&damaged, []string{"none", "number 4650: cut short"}},
	} {
		src.overview.Snapshots = c.list
		_, body := get(t, h, "/")
		_, row, ok := strings.Cut(body, "<dt>Snapshots</dt>")
		row, _, _ = strings.Cut(row, "</dl>")
		if ok != (c.want != nil) {
			t.Errorf("%s: the row is there: %v", what, ok)
		}
		for _, text := range c.want {
			if !strings.Contains(row, text) {
				t.Errorf("%s: %q is not in %s", what, text, row)
			}
		}
	}
}
