package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// surfaced is what one broker's surfaces show at about the same time.
type surfaced struct {
	logs     []view.Log
	dirs     []view.Dir
	brokers  view.Brokers
	conns    []view.Connection
	profiles view.Profiles
	report   health.Report
	metrics  map[string]float64 // by name and labels, as the text has them
	page     func(path string) string
}

// seen asks all surfaces of a broker.
func seen(t *testing.T, b *Broker) *surfaced {
	t.Helper()
	s := &surfaced{metrics: map[string]float64{}}
	var logs view.Logs
	var dirs struct{ Dirs []view.Dir }
	var conns view.Connections
	for path, v := range map[string]any{"/v1/logs?limit=10000": &logs, "/v1/dirs": &dirs, "/v1/brokers": &s.brokers,
		"/v1/connections": &conns, "/v1/profiles": &s.profiles, "/v1/health": &s.report} {
		if err := json.Unmarshal([]byte(body(t, b, path)), v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	s.logs, s.dirs, s.conns = logs.List, dirs.Dirs, conns.List
	for line := range strings.Lines(body(t, b, "/metrics")) {
		i := strings.LastIndex(line, " ") // label values may have spaces
		if n, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64); i > 0 && err == nil && !strings.HasPrefix(line, "#") {
			s.metrics[line[:i]] = n
		}
	}
	s.page = func(path string) string {
		code, text := browse(t, b, path)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		return html.UnescapeString(strings.NewReplacer("<code>", "`", "</code>", "`").Replace(text))
	}
	return s
}

// agreeing waits until all surfaces of a broker show the same of each noun: its partitions, log
// directories, connections and brokers. What they show may change between two requests.
func agreeing(t *testing.T, b *Broker) {
	t.Helper()
	var wrong []string
	defer func() {
		if t.Failed() {
			t.Errorf("the surfaces do not agree:\n%s", strings.Join(wrong, "\n"))
		}
	}()
	eventually(t, "the surfaces agree", func() bool {
		s := seen(t, b)
		wrong = slices.Concat(s.onLogs(), s.onDirs(), s.onBrokers(), s.onConnections(), s.onProfiles(),
			s.onTopics(), s.onGroups(), s.onTransactions())
		return len(wrong) == 0
	})
}

// differ returns the names whose values differ from those of metrics.
func (s *surfaced) differ(want map[string]float64) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got, ok := s.metrics[name]; !ok || got != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %v in metrics (%v), %v elsewhere", name, got, ok, want[name]))
		}
	}
	return wrong
}

// onLogs compares what is shown of partitions.
func (s *surfaced) onLogs() (wrong []string) {
	want := map[string]float64{"chronik_partitions_unavailable": 0, "chronik_partitions_damaged": 0}
	pages, offline := map[string]string{}, map[string]int{}
	for i := range s.logs {
		l := &s.logs[i]
		if l.Segments > 0 {
			labels := fmt.Sprintf(`{partition="%d",topic=%q}`, l.Partition, l.Topic)
			want["chronik_log_size_bytes"+labels] = float64(l.Bytes)
			want["chronik_log_start_offset"+labels] = float64(l.LogStart)
			want["chronik_log_end_offset"+labels] = float64(l.LogEnd)
		}
		found := append(s.about("partition "+l.String()), s.among(l)...)
		if l.Offline {
			want["chronik_partitions_unavailable"]++
			offline[l.Dir]++
		}
		switch {
		case l.Offline || l.Error != "":
			if d := s.dir(l.Dir); !slices.Contains(found, "partition") && (d == nil || d.Error == "") {
				wrong = append(wrong, l.String()+" cannot be used, or takes no records, without a finding: "+l.Error)
			}
		case slices.Contains(found, "partition"):
			wrong = append(wrong, l.String()+" has no error, and a finding that it cannot be used")
		}
		if l.Damaged != "" {
			want["chronik_partitions_damaged"]++
		}
		if (l.Damaged != "") != slices.Contains(found, "damage") {
			wrong = append(wrong, fmt.Sprintf("%s has the damage %q and the findings %v", l, l.Damaged, found))
		}
		if pages[l.Topic] == "" {
			pages[l.Topic] = s.page("/topic?name=" + url.QueryEscape(l.Topic))
		}
		_, row, _ := strings.Cut(pages[l.Topic], fmt.Sprintf(`<th scope="row" class="num">%d</th>`, l.Partition))
		row, _, _ = strings.Cut(row, "</tr>")
		if p := l.Problem(); p != "" && !strings.Contains(row, p) || (p == "") != strings.Contains(row, "<td>ok</td>") {
			wrong = append(wrong, fmt.Sprintf("%s has the problem %q, and on the page %s", l, p, row))
		}
	}
	for i := range s.dirs {
		if d := &s.dirs[i]; d.Offline != offline[d.Path] && s.metrics[fmt.Sprintf(`chronik_log_dir_online{dir=%q}`, d.Path)] == 1 {
			wrong = append(wrong, fmt.Sprintf("%s has %d partitions offline, its partitions say %d", d.Path, d.Offline, offline[d.Path]))
		}
	}
	return append(wrong, s.differ(want)...)
}

// about returns the checks with a finding about a subject.
func (s *surfaced) about(subject string) (checks []string) {
	for _, f := range s.report.Findings {
		if f.Subject == subject && f.Severity != health.Note {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// among returns the checks with a finding about several partitions that names this one, or not all.
func (s *surfaced) among(l *view.Log) (checks []string) {
	name := l.String()
	for _, f := range s.report.Findings {
		if strings.HasPrefix(f.Subject, "partitions in ") && (strings.Contains(f.Problem, name+",") ||
			strings.Contains(f.Problem, name+")") || l.Error != "" && strings.Contains(f.Problem, " more)")) {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// noted reports whether there is a finding about a subject.
func (s *surfaced) noted(subject string) bool {
	return slices.ContainsFunc(s.report.Findings, func(f health.Finding) bool { return f.Subject == subject })
}

func (s *surfaced) dir(path string) *view.Dir {
	for i := range s.dirs {
		if s.dirs[i].Path == path {
			return &s.dirs[i]
		}
	}
	return nil
}

// onDirs compares what is shown of log directories.
func (s *surfaced) onDirs() (wrong []string) {
	want, page := map[string]float64{}, s.page("/")
	for i := range s.dirs {
		d := &s.dirs[i]
		labels := fmt.Sprintf(`{dir=%q}`, d.Path)
		want["chronik_log_dir_online"+labels] = 1
		if d.Error != "" {
			want["chronik_log_dir_online"+labels] = 0
		}
		if (d.Error != "") != slices.Contains(s.about("log directory "+d.Path), "log_dir") {
			wrong = append(wrong, fmt.Sprintf("%s has the error %q and the findings %v", d.Path, d.Error, s.about("log directory "+d.Path)))
		}
		if refuses := d.Space == view.SpaceLow || d.Space == view.SpaceCritical; refuses {
			want["chronik_log_dir_low_space"+labels] = map[view.Space]float64{view.SpaceLow: 1, view.SpaceCritical: 2}[d.Space]
			if !slices.Contains(s.about("disk of "+d.Path), "space") {
				wrong = append(wrong, d.Path+" is low on space without a finding")
			}
		}
		if p := d.Problem(); p != "" && !strings.Contains(page, p) {
			wrong = append(wrong, fmt.Sprintf("%s has the problem %q, the page does not", d.Path, p))
		}
	}
	return append(wrong, s.differ(want)...)
}

// onBrokers compares what is shown of the cluster.
func (s *surfaced) onBrokers() (wrong []string) {
	want := map[string]float64{}
	if _, member := s.metrics["chronik_partitions_without_leader"]; member {
		want["chronik_partitions_without_leader"] = float64(s.brokers.Leaderless)
		want["chronik_partitions_reassigning"] = float64(s.brokers.Moving)
	}
	for i := range s.brokers.List {
		if b := &s.brokers.List[i]; b.ID == s.brokers.Broker {
			want["chronik_partitions_led"] = float64(b.Leads)
			want["chronik_partitions_under_replicated"] = float64(b.UnderReplicated)
			want["chronik_partitions_under_min_isr"] = float64(b.UnderMinISR)
		}
	}
	if len(want) == 0 {
		wrong = append(wrong, "the broker that answers is not in its list")
	}
	return append(wrong, s.differ(want)...)
}

// onConnections compares what is shown of connections.
func (s *surfaced) onConnections() (wrong []string) {
	open := 0.0
	for name, n := range s.metrics {
		if strings.HasPrefix(name, "chronik_connections{") {
			open += n
		}
	}
	if int(open) != len(s.conns) {
		wrong = append(wrong, fmt.Sprintf("%d connections are listed, metrics have %v", len(s.conns), open))
	}
	page := s.page("/connections")
	for i := range s.conns {
		if at := s.conns[i].Address; !strings.Contains(page, at) {
			wrong = append(wrong, "the page lacks the connection from "+at)
		}
	}
	return wrong
}

// onProfiles compares what is shown of durability profiles.
func (s *surfaced) onProfiles() (wrong []string) {
	want, standard := map[string]float64{}, s.profiles.Standard()
	for i := range s.profiles.List {
		p := &s.profiles.List[i]
		if p.Waits != nil {
			want[fmt.Sprintf(`chronik_commit_wait_seconds_count{profile=%q}`, p.Name)] = float64(p.Waits.Count)
		}
		if weak := s.noted("profile " + p.Name); weak != (p.Default && p.Weak()) {
			wrong = append(wrong, fmt.Sprintf("%s is weak: %v; a finding says so: %v", p.Name, p.Weak(), weak))
		}
	}
	for _, g := range s.profiles.Groups {
		want[fmt.Sprintf(`chronik_commit_group_sync_seconds_count{dir=%q}`, g.Dir)] = float64(g.Count)
	}
	if text := standard.Name + "<small>if the power fails, " + standard.Promise(); standard.Name != s.profiles.Default ||
		!strings.Contains(s.page("/"), text) {
		wrong = append(wrong, fmt.Sprintf("the default profile is %q, and on the page not %s", s.profiles.Default, text))
	}
	for i := range s.logs {
		l := &s.logs[i]
		known := func(p view.Profile) bool { return p.Name == l.Profile }
		if l.Profile != "" && !slices.ContainsFunc(s.profiles.List, known) {
			wrong = append(wrong, l.String()+" has a profile that is not in the list: "+l.Profile)
		}
	}
	return append(wrong, s.differ(want)...)
}

// onTopics compares what is shown of topics. The page rounds sizes, so those of partitions are
// added up as the page adds them.
func (s *surfaced) onTopics() (wrong []string) {
	list, sums := s.page("/topics?internal=show"), map[string]*view.Topic{}
	stored, weak := map[string]bool{}, false
	for i := range s.logs {
		l := &s.logs[i]
		if sums[l.Topic] == nil {
			sums[l.Topic] = &view.Topic{Name: l.Topic, Profile: l.Profile}
		}
		sums[l.Topic].Add(l)
		if l.Profile != "" { // there is a log
			stored[l.Topic] = true
		}
	}
	for name, t := range sums {
		_, row, found := strings.Cut(list, fmt.Sprintf(`<a href="/topic?name=%s">`, url.QueryEscape(name)))
		row, _, _ = strings.Cut(row, "</tr>")
		for _, text := range []string{cmp.Or(t.Problem(), "<td>ok</td>"), fmt.Sprintf(`<td class="num">%d</td>`, t.Records), t.Profile} {
			if !found || !strings.Contains(row, text) {
				wrong = append(wrong, fmt.Sprintf("the partitions of %s say %q, on the page is %s", name, text, row))
			}
		}
		one := s.page("/topic?name=" + url.QueryEscape(name))
		if !strings.Contains(one, fmt.Sprintf("<dt>Records</dt><dd>%d</dd>", t.Records)) {
			wrong = append(wrong, fmt.Sprintf("%s has %d records, its page has others", name, t.Records))
		}
		weak = weak || slices.ContainsFunc(s.profiles.List, func(p view.Profile) bool { return p.Name == t.Profile && p.Weak() })
	}
	if standard := s.profiles.Standard(); s.noted("topics") != (weak && !standard.Weak()) {
		wrong = append(wrong, fmt.Sprintf("topics with a weaker profile than %s: %v, the findings differ", standard.Name, weak))
	}
	return append(wrong, s.differ(map[string]float64{"chronik_topics": float64(len(stored))})...)
}

// groupRow is a row of the page's list of groups: id, state, what is wrong, lag and protocol.
var groupRow = regexp.MustCompile(`href="/group\?id=([^"]*)">.*</th>\s*<td>(?:<span.*</span> )?(\w+)( <span class="why">.*)?</td>\s*` +
	`<td class="num">([\d,]+)</td>\s*<td class="opt">(\w+)</td>`)

// onGroups compares what is shown of groups: the list, the page of each, metrics and findings.
func (s *surfaced) onGroups() (wrong []string) {
	want, lags := map[string]float64{}, map[string]float64{}
	for name, n := range s.metrics {
		if _, labels, ok := strings.Cut(name, `chronik_group_topic_lag_records{group="`); ok {
			group, _, _ := strings.Cut(labels, `"`)
			lags[group] += n
		}
		if strings.HasPrefix(name, "chronik_groups{") {
			want[name] = 0
		}
	}
	for _, row := range groupRow.FindAllStringSubmatch(s.page("/groups"), -1) {
		id, err := url.QueryUnescape(row[1])
		lag, err2 := strconv.ParseFloat(strings.ReplaceAll(row[4], ",", ""), 64)
		if err != nil || err2 != nil || lag != lags[id] {
			wrong = append(wrong, fmt.Sprintf("the group %q has a lag of %s on the page, %v in metrics (%v)", id, row[4], lags[id], err))
		}
		want[fmt.Sprintf(`chronik_groups{state=%q,type=%q}`, row[2], row[5])]++
		one := s.page("/group?id=" + row[1])
		for _, text := range []string{"State</dt><dd>" + row[2] + "<", "Protocol</dt><dd>" + row[5] + "<", "Lag</dt><dd>" + row[4] + "<"} {
			if !strings.Contains(one, text) {
				wrong = append(wrong, fmt.Sprintf("the page of the group %q lacks %s", id, text))
			}
		}
		if s.noted("group "+id) != (row[3] != "") {
			wrong = append(wrong, fmt.Sprintf("the group %q has a finding: %v; the list says %q", id, s.noted("group "+id), row[3]))
		}
	}
	return append(wrong, s.differ(want)...)
}

// onTransactions compares what metrics and findings show of transactions.
func (s *surfaced) onTransactions() (wrong []string) {
	found := 0.0
	for _, f := range s.report.Findings {
		if strings.HasPrefix(f.Subject, "transaction of ") {
			found++
		}
	}
	open := 0
	for name, n := range s.metrics {
		if labels, ok := strings.CutPrefix(name, "chronik_txn_open"); ok && n > 0 {
			open++
			if age := s.metrics["chronik_partition_lso_age_seconds"+labels]; age > s.metrics["chronik_lso_age_max_seconds"] {
				wrong = append(wrong, fmt.Sprintf("the last stable offset of %s is held for %v, more than the maximum", labels, age))
			}
		}
	}
	saw := 0
	for _, c := range s.report.Checks {
		for _, x := range c.Saw {
			if c.Name == "transaction" {
				_, _ = fmt.Sscanf(x, "%d partition", &saw)
			}
		}
	}
	if saw != open {
		wrong = append(wrong, fmt.Sprintf("%d partitions have an open transaction, the check saw %d", open, saw))
	}
	return append(wrong, s.differ(map[string]float64{"chronik_txn_undone": found})...)
}

// All surfaces show the same open transactions.
func TestEverySurfaceShowsAnOpenTransaction(t *testing.T) {
	b, _ := startHere(t, vfs.Memory())
	fill(t, b, "orders", 2, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer c.Close()
	must.OK(t, c.BeginTransaction())
	must.OK(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 1}).FirstErr())
	agreeing(t, b)
	if n := seen(t, b).metrics[`chronik_txn_open{partition="1",topic="orders"}`]; n != 1 {
		t.Errorf("%v transactions are open, want 1", n)
	}
	must.OK(t, c.EndTransaction(t.Context(), kgo.TryAbort))
	agreeing(t, b)
}
