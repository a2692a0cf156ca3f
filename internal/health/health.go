// Package health is the vocabulary in which a broker reports its problems: one Report with one list
// of Findings, in one JSON form, with one set of severities.
//
// Every surface shows that list in the same words: GET /v1/health is a Report, /readyz is
// Report.Text, the log and the metric chronik_findings are derived from it, and chronikctl prints
// it. The brokers of a cluster send each other their reports in the same form, and each adds those
// of the others to its own (Report.Add). An encoded report has at most the bytes that its caller
// allows, and a decoded one takes a bounded multiple of them, whatever another broker sends. Both
// the broker and chronikctl import the package, so it imports next to nothing, and it does not know
// what is a fault: health/checks makes the reports, and health/host reads the machine.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Severity is the effect of a finding on records.
type Severity string

// The severities, worst first.
const (
	// Bad: some records cannot be written or read now.
	Bad Severity = "bad"
	// Warn: a guarantee is not met, or one more failure, or more of the same, makes the finding
	// Bad.
	Warn Severity = "warn"
	// Note: everything works as configured, but the operator should know.
	Note Severity = "note"
)

// Severities lists all severities, worst first.
func Severities() []Severity { return []Severity{Bad, Warn, Note} }

// Known reports whether the severity is one of Severities.
func (s Severity) Known() bool { return slices.Contains(Severities(), s) }

// NoBroker is Finding.Broker of a finding that is not one broker's own.
const NoBroker int32 = -1

// Finding is one problem. Two findings of the same broker, check and subject are the same fault
// with other numbers.
type Finding struct {
	// Broker is the member of a cluster that has the fault and reports it. NoBroker: it follows
	// from the metadata, so that every broker finds it, or there is no cluster.
	Broker   int32     `json:"broker"`
	Check    string    `json:"check"`    // name of the check that found it
	Severity Severity  `json:"severity"` //
	Subject  string    `json:"subject"`  // where: "log directory /data"
	Problem  string    `json:"problem"`  // the problem and its effect
	Works    string    `json:"works"`    // what still works; empty if there is nothing to add
	Remedy   string    `json:"remedy"`   // what to do
	Since    time.Time `json:"since"`    // when the broker first found it, UTC
	NotReady bool      `json:"notReady"` // clients should be sent elsewhere: /readyz answers 503
	// Stops reports that the remedy stops or restarts the broker, or its machine. Holds is what
	// must come before any other broker is stopped, such as "bring back broker 2"; empty if
	// nothing must. InOrder compares the two.
	Stops bool   `json:"stops,omitempty"`
	Holds string `json:"holds,omitempty"`
	// Follows is the Cause of another finding of which this one is an effect, empty if none is
	// known. A report that has the other one, not less severe, leaves this one out.
	Follows string `json:"follows,omitempty"`
	// About is for programs what Subject and Problem say to people; nil if no program asks.
	About *About `json:"about,omitempty"`
}

// About names what a finding is about, so that programs need no words of it. Dir is a log
// directory, or the one of Partitions; of several partitions in it, some are named. The
// partitions are those with a log that has the fault.
type About struct {
	Brokers    []int32  `json:"brokers,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Partitions []string `json:"partitions,omitempty"` // topic-partition
	Group      string   `json:"group,omitempty"`
	// Awaits are the brokers without whose remedies Brokers cannot return to order: their logs are
	// damaged, and those of Brokers copy from them.
	Awaits []int32 `json:"awaits,omitempty"`
}

// IsAbout reports whether the finding is about a broker.
func (f *Finding) IsAbout(broker int32) bool {
	return f.About != nil && slices.Contains(f.About.Brokers, broker)
}

// IsAboutLog reports whether the finding is about the log of a partition.
func (f *Finding) IsAboutLog(partition string) bool {
	return f.About != nil && slices.Contains(f.About.Partitions, partition)
}

// IsAboutGroup reports whether the finding is about a group.
func (f *Finding) IsAboutGroup(id string) bool { return f.About != nil && f.About.Group == id }

// OfBroker returns the beginning of a finding about a broker that others report.
func OfBroker(id int32) Finding {
	return Finding{Subject: BrokerSubject(id), About: &About{Brokers: []int32{id}}}
}

// OfLog returns the beginning of a finding about the log of a partition.
func OfLog(partition string) Finding {
	return Finding{Subject: "partition " + partition, About: &About{Partitions: []string{partition}}}
}

// OfLogs returns the beginning of a finding about several logs in a directory with the same fault,
// some of which are named. dir is empty if it is unknown.
func OfLogs(dir string, named []string) Finding {
	where := "of this broker"
	if dir != "" {
		where = "in " + dir
	}
	return Finding{Subject: "partitions " + where, About: &About{Dir: dir, Partitions: named}}
}

// OfGroup returns the beginning of a finding about a group.
func OfGroup(id string) Finding { return Finding{Subject: "group " + id, About: &About{Group: id}} }

// OfDir returns the beginning of a finding about a log directory.
func OfDir(path string) Finding {
	return Finding{Subject: "log directory " + path, About: &About{Dir: path}}
}

// UnknownPlace stands in commands for a directory that is not known.
const UnknownPlace = "DIRECTORY"

// SavedFile returns the name that commands give to the file with what a broker has of a partition.
// It has at most 100 bytes of the topic's name, so that it is a valid name of a file.
func SavedFile(topic string, partition int32, broker string) string {
	return fmt.Sprintf("%s-%d.broker-%s.json", topic[:min(len(topic), 100)], partition, broker)
}

// Cause names the findings of a check of a broker.
func Cause(check string, broker int32) string { return check + " of " + BrokerSubject(broker) }

// ThisBroker is the subject of a finding about the broker that reports it, as a whole.
const ThisBroker = "this broker"

// BrokerSubject is the subject of a finding about a broker that others report.
func BrokerSubject(id int32) string { return fmt.Sprintf("broker %d", id) }

// Where returns the subject for readers who see the findings of several brokers.
func (f *Finding) Where() string { return f.at(f.Broker) }

func (f *Finding) at(brokers ...int32) string {
	if f.Broker == NoBroker {
		return f.Subject
	}
	at := BrokerSubject(brokers[0])
	if last := len(brokers) - 1; last > 0 {
		at = fmt.Sprintf("brokers %s and %d", numbers(brokers[:last]), brokers[last])
	}
	if f.Subject == ThisBroker {
		return at
	}
	return at + ", " + f.Subject
}

// numbers lists ids: "1, 2".
func numbers(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// Shared is a finding of one broker, or of several in the same words.
type Shared struct {
	Finding         // of the first broker; Since is the earliest
	Brokers []int32 // that report it; empty if Broker is NoBroker
}

// Where is Finding.Where with all brokers.
func (s *Shared) Where() string { return s.at(s.Brokers...) }

// Together returns findings in their order, with those in one that brokers report in the same
// words, so that people read them once.
func Together(findings []Finding) (all []Shared) {
	known := map[Finding]int{}
	for _, f := range findings {
		words := f
		words.Broker, words.Since, words.About = 0, time.Time{}, nil
		i, ok := known[words]
		if f.Broker == NoBroker || !ok {
			i = len(all)
			all = append(all, Shared{Finding: f})
		}
		if f.Broker == NoBroker {
			continue
		}
		known[words] = i
		s := &all[i]
		s.Brokers = append(s.Brokers, f.Broker)
		if f.Since.Before(s.Since) {
			s.Since = f.Since
		}
	}
	return all
}

// String returns the finding in one line, without its remedy.
func (f *Finding) String() string { return f.line(f.Where()) }

func (f *Finding) line(where string) string {
	text := fmt.Sprintf("%s: %s: %s", f.Severity, where, f.Problem)
	if f.Works != "" {
		text += "; " + f.Works
	}
	return text
}

// Examined is a check and its measurements, which show how much an empty list of findings means.
type Examined struct {
	Name string   `json:"name"`
	Doc  string   `json:"doc"`
	Saw  []string `json:"saw"`
}

// Report is a broker's health at one moment, and after Add that of its cluster.
type Report struct {
	Broker  int32     `json:"broker"` // node.id
	Version string    `json:"version"`
	At      time.Time `json:"at"` // UTC
	// Ready reports whether this broker serves clients: no finding of its own is NotReady.
	Ready bool `json:"ready"`
	// Phase is what the broker does instead of serving clients, such as "recovering logs"; empty
	// while it serves them. Progress has one line for each part of the phase.
	Phase    string     `json:"phase"`
	Progress []string   `json:"progress"`
	Findings []Finding  `json:"findings"` // worst first
	Omitted  int        `json:"omitted"`  // findings that Encode left out
	Checks   []Examined `json:"checks"`
	// Brokers are the other brokers of the cluster, by id; empty in a report without Add.
	Brokers []Other `json:"brokers"`
	// Places are the flags that name the broker's directories to chronikctl log; empty before it
	// has opened them. Remedies of other brokers have commands with them.
	Places []string `json:"places,omitempty"`
	// Load is what the broker does; nil if it was not asked for, or serves no clients.
	Load *Load `json:"load,omitempty"`
}

// Sort orders findings, worst first; those of the same severity keep their order.
func Sort(all []Finding) {
	order := Severities()
	sorts.SortStable(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
}

// Text returns the report for people and for /readyz: a first line that begins with "ready" or "not
// ready", the progress of startup or shutdown, and one line for each finding that is worse than a
// note, without those of other brokers.
func (r *Report) Text() string {
	var b strings.Builder
	switch {
	case r.Ready:
		b.WriteString("ready\n")
	case r.Phase != "":
		b.WriteString("not ready: " + r.Phase + "\n")
	default:
		b.WriteString("not ready\n")
	}
	for _, line := range r.Progress {
		b.WriteString(line + "\n")
	}
	for _, why := range []bool{true, false} { // what the first line is about comes first
		for i := range r.Findings {
			f := &r.Findings[i]
			if f.NotReady != why || f.Broker != NoBroker && f.Broker != r.Broker {
				continue // Ready is about this broker
			}
			// The first line already reports the phase.
			if f.Severity != Note && f.Check != CheckServing {
				b.WriteString(f.line(f.Subject) + "\n")
			}
		}
	}
	return b.String()
}

// Refused reports whether a finding is that clients refuse a certificate of this broker, because of
// its dates.
func (r *Report) Refused(f Finding) bool {
	return f.Broker == r.Broker && f.Check == CheckCertificate && f.Severity == Bad
}

// Line returns Text as one line.
func (r *Report) Line() string { return strings.ReplaceAll(strings.TrimSpace(r.Text()), "\n", "; ") }

// CheckServing is the check whose finding is the phase of a broker that does not serve clients.
const CheckServing = "serving"

// CheckMembership is the check that measures, on a member of a cluster, whether the controller
// accepts its heartbeats.
const CheckMembership = "membership"

// CheckQuorum is the check of the metadata quorum of a member of a cluster. Its finding that the
// metadata have no leader is about the voters that cannot be reached.
const CheckQuorum = "quorum"

// CheckCertificate is the check of the certificates of a broker.
const CheckCertificate = "certificate"

// CheckRefused is the check for clients that are refused, or wait for quotas. They cause its
// findings, not what was done to a broker.
const CheckRefused = "refused"

// CheckReports is the check of the reports of other brokers.
const CheckReports = "reports"

// CheckProcesses is the check for two processes that run as one broker. Each broker meets both, and
// the finding of any is in the reports of all.
const CheckProcesses = "processes"

// CheckBrokers is the check whose findings are about a broker that is not in order, as the metadata
// show it.
const CheckBrokers = "brokers"
