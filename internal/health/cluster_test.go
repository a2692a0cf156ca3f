package health

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// present is the time at which the reports of these tests are added.
func present() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// reportOf returns the report of a serving broker. A finding is BROKER/CHECK/SUBJECT; the broker -
// is NoBroker.
func reportOf(id int32, findings ...string) *Report {
	r := &Report{Broker: id, Ready: true, Findings: []Finding{}}
	for _, text := range findings {
		parts := strings.SplitN(text, "/", 3)
		f := Finding{Broker: id, Check: parts[1], Subject: parts[2], Severity: Warn}
		if parts[1] == CheckBrokers {
			f.About = &About{Brokers: []int32{3}}
		}
		if parts[0] == "-" {
			f.Broker = NoBroker
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

// listed returns the findings of a report in the form of reportOf.
func listed(r *Report) (list []string) {
	for i := range r.Findings {
		f := &r.Findings[i]
		id := fmt.Sprint(f.Broker)
		if f.Broker == NoBroker {
			id = "-"
		}
		list = append(list, id+"/"+f.Check+"/"+f.Subject)
	}
	slices.Sort(list)
	return list
}

func TestTheReportOfTheCluster(t *testing.T) {
	at := present()
	heard := func(age time.Duration, r *Report) Heard { return Heard{Broker: r.Broker, At: at.Add(-age), Report: r} }
	recovering := reportOf(3, "o/serving/this broker", "o/files/open files")
	recovering.Phase, recovering.Ready = "recovering logs", false
	for _, x := range []struct {
		name   string
		own    *Report
		others []Heard
		want   []string
	}{
		{"alone", reportOf(1, "o/space/disk of /a"), nil, []string{"1/space/disk of /a"}},
		{"the findings of another broker", reportOf(1), []Heard{heard(time.Second, reportOf(3, "o/space/disk of /a"))},
			[]string{"3/space/disk of /a"}},
		{"the same directory of two brokers", reportOf(1, "o/space/disk of /a"), []Heard{heard(0, reportOf(3, "o/space/disk of /a"))},
			[]string{"1/space/disk of /a", "3/space/disk of /a"}},
		{"what all find is there once", reportOf(1, "-/brokers/broker 2"),
			[]Heard{heard(0, reportOf(3, "-/brokers/broker 2", "-/leaderless/partitions"))}, []string{"-/brokers/broker 2"}},
		{"a broker that is cut off believes those that are not", reportOf(1, "o/membership/this broker", "-/brokers/broker 3"),
			[]Heard{heard(0, reportOf(2, "-/brokers/broker 1")), heard(0, reportOf(3, "-/brokers/broker 9"))},
			[]string{"-/brokers/broker 1", "1/membership/this broker"}},
		{"all are cut off", reportOf(1, "o/membership/this broker", "-/brokers/broker 3"),
			[]Heard{heard(0, reportOf(2, "o/membership/this broker", "-/brokers/broker 1"))},
			[]string{"-/brokers/broker 3", "1/membership/this broker", "2/membership/this broker"}},
		{"an old report adds nothing", reportOf(1), []Heard{heard(FreshFor, reportOf(3, "o/space/disk of /a"))}, nil},
		{"a broker that was never heard", reportOf(1), []Heard{{Broker: 3}}, nil},
		{"an older version", reportOf(1), []Heard{{Broker: 3, At: at, Mute: true}}, nil},
		{"a broker that starts", reportOf(1), []Heard{heard(0, recovering)}, []string{"3/files/open files", "3/serving/this broker"}},
		{"a broker that starts, as the metadata show", reportOf(1, "-/brokers/broker 3"), []Heard{heard(0, recovering)},
			[]string{"-/brokers/broker 3", "3/files/open files"}},
	} {
		before := len(x.own.Findings)
		own := *x.own
		own.Add(x.others, at)
		if got := listed(&own); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
		if !own.Ready || len(own.Brokers) != len(x.others) || len(x.own.Findings) != before {
			t.Errorf("%s: ready %v, %d other brokers, %d findings of its own", x.name, own.Ready, len(own.Brokers), len(x.own.Findings))
		}
		if text := own.Text(); strings.Contains(text, "broker 3, disk") {
			t.Errorf("%s: /readyz has the finding of another broker:\n%s", x.name, text)
		}
	}
}

// The report of a cluster has the cause, without what follows from it and is not worse.
func TestEffectsAreLeftOut(t *testing.T) {
	at := present()
	r := reportOf(1, "o/stopped_replica/connection to broker 2", "o/space/disk of /a")
	other := reportOf(2, "o/certificate/certificate of in")
	r.Findings[0].Follows = Cause(CheckCertificate, 2)
	for severity, want := range map[Severity]int{Bad: 2, Warn: 2, Note: 3} {
		own := *r
		own.Findings = slices.Clone(r.Findings)
		other.Findings[0].Severity = severity
		if own.Add([]Heard{{Broker: 2, At: at, Report: other}}, at); len(own.Findings) != want {
			t.Errorf("%s: %q", severity, listed(&own))
		}
	}
	own := *r
	if own.Add(nil, at); len(own.Findings) != 2 {
		t.Errorf("without the other report: %q", listed(&own))
	}
}

func TestWhereAFindingIs(t *testing.T) {
	for _, x := range []struct {
		f    Finding
		want string
	}{
		{Finding{Broker: NoBroker, Subject: "disk of /a"}, "disk of /a"},
		{Finding{Broker: 0, Subject: "disk of /a"}, "broker 0, disk of /a"},
		{Finding{Broker: 3, Subject: ThisBroker}, "broker 3"},
	} {
		if got := x.f.Where(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// What several brokers report in the same words is shown once.
func TestEqualFindingsOfBrokersAreOne(t *testing.T) {
	at := time.Unix(100, 0)
	clock := func(broker int32, since time.Time) Finding {
		return Finding{Broker: broker, Check: "clock", Severity: Note, Subject: "clock", Problem: "not synchronized", Since: since}
	}
	full := Finding{Broker: 2, Check: "space", Severity: Bad, Subject: "disk of /a", Problem: "1 byte is free", Since: at}
	less := full
	less.Broker, less.Problem = 3, "2 bytes are free"
	none := Finding{Broker: NoBroker, Check: "partition", Severity: Warn, Subject: "t-0"}
	got := Together([]Finding{full, less, none, none, clock(1, at.Add(time.Second)), clock(2, at), clock(3, at)})
	var where []string
	for i := range got {
		where = append(where, got[i].Where())
	}
	want := []string{"broker 2, disk of /a", "broker 3, disk of /a", "t-0", "t-0", "brokers 1, 2 and 3, clock"}
	if !slices.Equal(where, want) || !got[4].Since.Equal(at) {
		t.Errorf("%q since %v, want %q", where, got[4].Since, want)
	}
}

// The reason why a broker is not ready is the first line after it.
func TestTheReasonComesFirst(t *testing.T) {
	r := &Report{Broker: 1, Findings: []Finding{{Broker: 1, Severity: Bad, Subject: "a", Problem: "b"},
		{Broker: 1, Severity: Warn, Subject: "c", Problem: "d", NotReady: true}}}
	if got := r.Text(); got != "not ready\nwarn: c: d\nbad: a: b\n" {
		t.Errorf("%q", got)
	}
}

// An encoded report is bounded, whatever was found. It has the worst findings, and counts the rest.
func TestAnEncodedReportIsBounded(t *testing.T) {
	long := strings.Repeat(`"<`, 2000) // which JSON makes longer
	for _, n := range []int{0, 1, 10, 1000} {
		r := &Report{Broker: 3, Findings: []Finding{}, Checks: []Examined{{Name: "a", Saw: []string{}}}, Progress: []string{}}
		for i := range n {
			r.Findings = append(r.Findings, Finding{Check: "space", Severity: Bad, Subject: fmt.Sprint(i), Problem: long})
		}
		p, err := r.Encode(MaxBytes)
		if err != nil || len(p) > MaxBytes {
			t.Fatalf("%d findings: %d bytes, %v", n, len(p), err)
		}
		got, err := Decode(p)
		if err != nil || got.Omitted+len(got.Findings) != n || n == 10 && got.Omitted > 0 || n == 1000 && len(got.Findings) < 5 {
			t.Fatalf("of %d findings, %d are there and %d are counted: %v", n, len(got.Findings), got.Omitted, err)
		}
		for i := range got.Findings {
			if got.Findings[i].Subject != fmt.Sprint(i) {
				t.Fatalf("finding %d is %s", i, got.Findings[i].Subject)
			}
		}
		if len(got.Checks) != 1 || len(r.Findings) != n {
			t.Errorf("%d checks, and %d findings in the report itself", len(got.Checks), len(r.Findings))
		}
	}
	r := &Report{Checks: []Examined{{Saw: []string{strings.Repeat("x", MaxBytes)}}}, Findings: []Finding{{Subject: "s"}}}
	p, err := r.Encode(MaxBytes)
	if err != nil || len(p) > MaxBytes {
		t.Fatalf("large measurements: %d bytes, %v", len(p), err)
	}
	if got, err := Decode(p); err != nil || len(got.Findings) != 1 {
		t.Errorf("large measurements hide the findings: %v, %v", got, err)
	}
}

// A report of another version is read as far as it is known; one that cannot be is refused.
func TestReportsOfOtherVersions(t *testing.T) {
	r, err := Decode([]byte(`{"broker":3,"findings":[{"check":"new","severity":"dire","subject":"s","more":1}],"more":{}}`))
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Severity != Warn {
		t.Errorf("%+v, %v", r, err)
	}
	big, err := json.Marshal(strings.Repeat("x", MaxBytes))
	must.OK(t, err)
	for _, p := range []string{"", "x", `[]`, string(big)} {
		if _, err := Decode([]byte(p)); err == nil {
			t.Errorf("%.10q was accepted", p)
		}
	}
}

// A few bytes of a report stand for a few bytes in memory, whatever a broken broker sends: findings
// are counted beyond a number, and texts are cut.
func TestADecodedReportIsBounded(t *testing.T) {
	fill := func(head, each, tail string) []byte {
		n := (MaxBytes - len(head) - len(tail)) / (len(each) + 1)
		return []byte(head + strings.TrimSuffix(strings.Repeat(each+",", n), ",") + tail)
	}
	long := strings.Repeat("ä", 100<<10)
	for name, p := range map[string][]byte{
		"findings": fill(`{"findings":[`, `{}`, `]}`), "checks": fill(`{"checks":[`, `{}`, `]}`),
		"brokers": fill(`{"brokers":[`, `{}`, `]}`),
		"lines":   fill(`{"progress":[`, `""`, `]}`), "measurements": fill(`{"checks":[{"saw":[`, `""`, `]}]}`),
		"a text": []byte(`{"findings":[{"problem":"` + long + `"}]}`), "a name": []byte(`{"version":"` + long + `"}`),
		"another type": fill(`{"findings":[`, `1`, `]}`),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := Decode(p)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 4*MaxBytes {
			t.Errorf("%s: %d bytes make the broker hold %d", name, len(p), held)
		}
		if (err != nil) != (name == "another type") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r == nil {
			continue
		}
		if len(r.Version) > maxName || !utf8.ValidString(r.Version) || len(r.Findings) == 1 && len(r.Findings[0].Problem) > maxText {
			t.Errorf("%s: texts of %d and more bytes", name, len(r.Version))
		}
		if n := len(r.Findings) + r.Omitted; name == "findings" && (n < MaxBytes/4 || len(r.Findings) > maxList) {
			t.Errorf("%d findings are there, and %d are omitted", len(r.Findings), r.Omitted)
		}
	}
}
