package health

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/text"
)

// Bounds of encoded reports, in bytes. Findings beyond them are counted only.
const (
	MaxBytes  = 256 << 10 // between brokers
	MaxAnswer = 60 << 10  // to clients
)

// Tag is the number of the tagged field (KIP-482) with which a DescribeCluster request asks a
// broker for a report, and which has it in the answer: chronik's own, ignored by other clients and
// brokers. In the request it is empty. In the answer it is a report, as Encode writes it, or
// Refusal.
const Tag uint32 = 20480

// FreshFor is the age up to which the report of another broker is current. A broker asks the others
// once a second, so that this is more than the delay on a busy machine.
const FreshFor = 5 * time.Second

// Heard is the newest report that a broker has from another one.
type Heard struct {
	Broker int32
	At     time.Time // when it arrived; zero: none did
	Report *Report   // without the reports of others; nil if none arrived
	// Digest is that of the encoded report.
	Digest []byte
	// Mute reports that the broker has answered at At that it knows no reports: its version is
	// older.
	Mute bool
}

// Fresh reports whether the report is current.
func (h *Heard) Fresh(now time.Time) bool {
	return h.Report != nil && !h.Mute && now.Sub(h.At) < FreshFor
}

// Other describes the report of another broker.
type Other struct {
	Broker  int32     `json:"broker"`
	Version string    `json:"version"` // empty: it was never heard
	At      time.Time `json:"at"`      // when its newest report arrived, UTC; zero: none did
	// Current reports that it arrived a short time ago, so that Findings has what it found.
	Current bool `json:"current"`
	Ready   bool `json:"ready"` // as in its report
	// Phase is that of its report.
	Phase   string `json:"phase"`
	Omitted int    `json:"omitted"` // findings that the report leaves out
}

// Load is what a broker does, as counters since its start. Two samples give rates.
type Load struct {
	Connections int     `json:"connections"` // open now
	Requests    float64 `json:"requests"`
	BytesIn     float64 `json:"bytesIn"`
	BytesOut    float64 `json:"bytesOut"`
	Syncs       float64 `json:"syncs"`       // fdatasync calls of its journals
	SyncSeconds float64 `json:"syncSeconds"` // their duration
	CPUSeconds  float64 `json:"cpuSeconds"`
	MemoryBytes float64 `json:"memoryBytes"` // resident
}

// Add adds what other brokers report, sorted by broker. Findings that follow from the metadata are
// the same everywhere, and are not repeated: they are those of this broker, or if it knows no
// present metadata, of the first that does. Reports that are not current add no findings. Effects
// of a finding are left out if it is there. Remedies that stop brokers get their order (InOrder).
// Ready stays about this broker.
func (r *Report) Add(others []Heard, now time.Time) {
	r.Brokers = make([]Other, 0, len(others))
	var shared *Report // whose findings about the metadata are shown
	if r.informed() {
		shared = r
	}
	for i := range others {
		h := &others[i]
		r.Brokers = append(r.Brokers, h.other(now))
		if shared == nil && h.Fresh(now) && h.Report.informed() {
			shared = h.Report
		}
	}
	if shared == nil {
		shared = r
	}
	is := func(f Finding) bool { return f.Broker == NoBroker }
	all := slices.Clone(r.Findings)
	if shared != r {
		all = slices.DeleteFunc(all, is)
		all = append(all, slices.DeleteFunc(slices.Clone(shared.Findings), func(f Finding) bool { return !is(f) })...)
	}
	for i := range others {
		if h := &others[i]; h.Fresh(now) {
			all = append(all, h.own(all)...)
		}
	}
	r.Findings = causes(r.processes(all, others, now))
	InOrder(r.Findings, slices.Clone(r.Findings))
	Sort(r.Findings)
}

// processes adds to findings those about processes that this broker or another one has, and that
// are not in the list. Two processes of a broker need not meet all others.
func (r *Report) processes(all []Finding, others []Heard, now time.Time) []Finding {
	add := func(list []Finding) {
		for _, f := range list {
			same := func(x Finding) bool {
				return x.Check == CheckProcesses && slices.ContainsFunc(f.About.Brokers, x.IsAbout)
			}
			if f.Check == CheckProcesses && f.About != nil && !slices.ContainsFunc(all, same) {
				all = append(all, f)
			}
		}
	}
	add(r.Findings)
	for i := range others {
		if h := &others[i]; h.Fresh(now) {
			add(h.Report.Findings)
		}
	}
	return all
}

// causes returns findings without those that follow from another one, which is not less severe.
func causes(all []Finding) []Finding {
	known := map[string]int{} // the worst severity of each, as a rank from 1
	rank := func(f *Finding) int { return 1 + slices.Index(Severities(), f.Severity) }
	for i := range all {
		f := &all[i]
		of := []int32{f.Broker}
		if f.Broker == NoBroker && f.About != nil {
			of = f.About.Brokers
		}
		for _, broker := range of {
			cause := Cause(f.Check, broker)
			if worst, ok := known[cause]; !ok || rank(f) < worst {
				known[cause] = rank(f)
			}
		}
	}
	return slices.DeleteFunc(all, func(f Finding) bool { worst, ok := known[f.Follows]; return ok && worst <= rank(&f) })
}

// informed reports whether a broker's findings about the metadata describe the present state: it
// serves clients, and the controller accepts its heartbeats.
func (r *Report) informed() bool {
	return r.Phase == "" && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == CheckMembership })
}

// other describes the report.
func (h *Heard) other(now time.Time) Other {
	o := Other{Broker: h.Broker, At: h.At.UTC(), Current: h.Fresh(now)}
	if h.Report != nil {
		o.Version, o.Ready, o.Phase, o.Omitted = h.Report.Version, h.Report.Ready, h.Report.Phase, h.Report.Omitted
	}
	return o
}

// own returns the broker's own findings, with the broker's number. What it does instead of serving
// clients is left out if a finding in known is about that.
func (h *Heard) own(known []Finding) (list []Finding) {
	covered := slices.ContainsFunc(known, func(f Finding) bool {
		return f.Check == CheckBrokers && f.IsAbout(h.Broker)
	})
	for _, f := range h.Report.Findings {
		if f.Broker == NoBroker || covered && f.Check == CheckServing {
			continue
		}
		f.Broker = h.Broker
		list = append(list, f)
	}
	return append(list, h.Report.More(h.Broker)...)
}

// More returns the finding that stands for those that Encode left out, empty if there are none.
// broker is the one that has them.
func (r *Report) More(broker int32) []Finding {
	if r.Omitted <= 0 {
		return nil
	}
	f := Finding{Broker: broker, Check: CheckReports, Severity: Note, Subject: "findings", Since: r.At,
		Problem: fmt.Sprintf("%d more are left out, which are not worse than the others", r.Omitted),
		Remedy:  "resolve the others first"}
	if n := len(r.Findings); n > 0 {
		f.Severity = r.Findings[n-1].Severity
	}
	return []Finding{f}
}

// Encode returns the report as JSON of at most limit bytes, which are at least MaxAnswer. It leaves
// out the last findings if there are too many, and then counts them in Omitted; if the rest is too
// large, it leaves out Checks and Progress, too.
func (r *Report) Encode(limit int) ([]byte, error) {
	half := limit / 2
	c := *r
	c.Findings = []Finding{}
	p, err := json.Marshal(c)
	if err == nil && len(p) > half {
		c.Checks, c.Progress = []Examined{}, []string{}
		p, err = json.Marshal(c)
	}
	if err != nil {
		return nil, err
	}
	left := limit - len(p) - len(`18446744073709551615`) // of Omitted
	for i := range r.Findings {
		f, err := json.Marshal(&r.Findings[i])
		if err != nil {
			return nil, err
		}
		if left -= len(f) + 1; left < 0 {
			c.Omitted += len(r.Findings) - i
			break
		}
		c.Findings = append(c.Findings, r.Findings[i])
	}
	return json.Marshal(c)
}

// Digest identifies what an encoded report says, whatever its time is.
func Digest(p []byte) []byte {
	sum := sha256.New()
	if _, after, found := bytes.Cut(p, []byte(`"at":"`)); found { // the version before it has no such bytes: quotes are escaped
		sum.Write(p[:len(p)-len(after)])
		p = after[max(bytes.IndexByte(after, '"'), 0):]
	}
	sum.Write(p)
	return sum.Sum(nil)
}

// Again returns what was heard of a broker that says the same at another time.
func (h *Heard) Again(at time.Time) *Heard {
	next, report := *h, *h.Report
	report.At = report.At.Add(at.Sub(h.At))
	next.At, next.Report = at, &report
	return &next
}

// Refusal returns the answer to a request for a report that is refused.
func Refusal(text string) []byte {
	p, _ := json.Marshal(answer{Error: text}) // a text is always encoded
	return p
}

// answer is a report, or the reason for none.
type answer struct {
	Error string `json:"error"`
	Report
}

// Bounds of what Decode keeps of a report, whose few bytes could stand for many findings. No report
// of Encode has more: the JSON of each finding has over 100 bytes.
const (
	maxList   = MaxBytes / 128 // elements of a list
	maxName   = 256            // bytes of a name
	maxText   = 8 << 10        // bytes of a text
	maxPlaces = 256            // words of Places
	maxAbout  = 64             // brokers, and partitions, that a finding is about
)

// received is an answer of another broker. Its lists hide those of the report.
type received struct {
	answer
	Progress few[string]   `json:"progress"`
	Findings few[Finding]  `json:"findings"`
	Checks   few[Examined] `json:"checks"`
	Brokers  few[Other]    `json:"brokers"`
}

// few is a list of which at most maxList elements are read. The others are counted.
type few[T any] struct {
	list    []T
	omitted int
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *few[T]) UnmarshalJSON(p []byte) error {
	d := json.NewDecoder(bytes.NewReader(p))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		if begin != nil {
			return fmt.Errorf("%v is not the begin of a list", begin)
		}
		return err // null is an empty list
	}
	for d.More() {
		var x T
		if len(f.list) == maxList {
			f.omitted++
			if err := d.Decode(new(ignored)); err != nil {
				return err
			}
			continue
		}
		if err := d.Decode(&x); err != nil {
			return err
		}
		f.list = append(f.list, x)
	}
	return nil
}

// ignored is any value.
type ignored struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// report returns the report with the lists, and with texts within their bounds.
func (a *received) report() *Report {
	r := a.Report
	r.Progress, r.Findings, r.Checks, r.Brokers = a.Progress.list, a.Findings.list, a.Checks.list, a.Brokers.list
	r.Omitted = max(r.Omitted, 0) + a.Findings.omitted
	cut(maxName, &r.Version, &r.Phase)
	for i := range r.Progress {
		shorten(&r.Progress[i])
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if !f.Severity.Known() { // of a newer version
			f.Severity = Warn
		}
		cut(maxName, &f.Check)
		shorten(&f.Subject, &f.Problem, &f.Works, &f.Holds)
		shortenRemedy(&f.Remedy)
		f.About.bound()
	}
	for i := range r.Checks {
		x := &r.Checks[i]
		cut(maxName, &x.Name)
		shorten(&x.Doc)
		x.Saw = slices.Clone(x.Saw[:min(len(x.Saw), maxList)])
		for j := range x.Saw {
			shorten(&x.Saw[j])
		}
	}
	for i := range r.Brokers {
		cut(maxName, &r.Brokers[i].Version, &r.Brokers[i].Phase)
	}
	if len(r.Places) > maxPlaces || slices.ContainsFunc(r.Places, func(s string) bool { return len(s) > maxText }) {
		r.Places = nil // some of them would name too little
	}
	return &r
}

// bound bounds what is kept of it.
func (a *About) bound() {
	if a == nil {
		return
	}
	a.Brokers = slices.Clone(a.Brokers[:min(len(a.Brokers), maxAbout)])
	a.Awaits = slices.Clone(a.Awaits[:min(len(a.Awaits), maxAbout)])
	a.Partitions = slices.Clone(a.Partitions[:min(len(a.Partitions), maxAbout)])
	cut(maxText, &a.Dir, &a.Group)
	for i := range a.Partitions {
		cut(2*maxName, &a.Partitions[i]) // of Kafka's topics with the longest names, too
	}
}

// cut cuts names to at most so many bytes, without a part of a character at the end.
func cut(most int, texts ...*string) {
	for _, s := range texts {
		if len(*s) > most {
			*s = strings.Clone(text.Cut(*s, most))
		}
	}
}

// Denied is the Refusal for a client that may not describe the cluster, and ErrDenied what Decode
// returns for it.
const Denied = "Cluster authorization failed."

// ErrDenied is the error of Denied.
var ErrDenied = errors.New("the client may not describe the cluster")

// Decode reads a report of Encode, of which it keeps some times as many bytes at most, whatever
// another broker sends. The error is that of a Refusal.
func Decode(p []byte) (*Report, error) {
	if len(p) > MaxBytes {
		return nil, fmt.Errorf("a health report of %d bytes is larger than %d", len(p), MaxBytes)
	}
	var a received
	if err := json.Unmarshal(p, &a); err != nil {
		return nil, fmt.Errorf("health report: %w", err)
	}
	switch a.Error {
	case "":
	case Denied:
		return nil, ErrDenied
	default:
		return nil, errors.New(a.Error)
	}
	return a.report(), nil
}
