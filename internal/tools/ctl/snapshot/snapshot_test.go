package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a broker that answers requests about snapshots as a test says.
type fake struct {
	host string
	port int32

	mu      sync.Mutex // guards the following fields
	other   bool       // it is a broker of another kind: it ignores tagged fields
	code    int16      // of all answers
	list    view.SnapshotList
	answer  view.SnapshotAnswer
	asked   []view.SnapshotAsk
	listed  int
	onAsk   func(*fake)
	onList  func(*fake) // before each answer
	message string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{host: fakebroker.Host, answer: view.SnapshotAnswer{ID: 3, Term: 7},
		list: view.SnapshotList{Service: &view.Snapshots{URL: "file:///x", Term: 7}}}
	port := fakebroker.Serve(t, f.respond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.port = port
	return f
}

func (f *fake) respond(req kmsg.Request) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		for k, most := range map[kmsg.Key]int16{kmsg.ApiVersions: 3, kmsg.Metadata: 9, kmsg.DescribeQuorum: 2, kmsg.UpdateFeatures: 1} {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(k), MaxVersion: most})
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.ControllerID = 1
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: f.host, Port: f.port}}
		return resp
	case *kmsg.DescribeQuorumRequest:
		f.listed++
		if f.onList != nil {
			f.onList(f)
		}
		resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
		resp.ErrorCode = f.code
		f.tag(&req.UnknownTags, &resp.UnknownTags, f.list)
		return resp
	case *kmsg.UpdateFeaturesRequest:
		resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
		resp.ErrorCode = f.code
		if f.message != "" {
			resp.ErrorMessage = &f.message
		}
		req.UnknownTags.Each(func(_ uint32, p []byte) {
			var q view.SnapshotAsk
			_ = json.Unmarshal(p, &q)
			f.asked = append(f.asked, q)
		})
		if f.onAsk != nil {
			f.onAsk(f)
		}
		f.tag(&req.UnknownTags, &resp.UnknownTags, f.answer)
		return resp
	}
	return nil
}

// tag sets the tagged field of an answer, if the request has it.
func (f *fake) tag(req, resp *kmsg.Tags, v any) {
	req.Each(func(tag uint32, _ []byte) {
		if p, err := json.Marshal(v); tag == view.SnapshotTag && err == nil && !f.other && f.code == 0 {
			resp.Set(tag, p)
		}
	})
}

// outcome gives the request an outcome with the second list after it.
func (f *fake) outcome(o view.SnapshotOutcome) {
	f.onAsk = func(f *fake) {
		asked := f.listed
		f.onList = func(f *fake) {
			if f.listed == asked+2 {
				f.list.Service.Outcomes = []view.SnapshotOutcome{{ID: 2, Error: "another request"}, o}
			}
		}
	}
}

// run runs a command line, and returns its output, its notes and its exit code.
func (f *fake) run(t *testing.T, line string) (out, notes string, code int, err error) {
	t.Helper()
	var b, errs bytes.Buffer
	env := map[string]string{"HOME": t.TempDir(), "CHRONIKCTL_BROKERS": net.JoinHostPort(f.host, strconv.Itoa(int(f.port)))}
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Out: &b, Err: &errs,
		Getenv: func(name string) string { return env[name] }})
	root := &cobra.Command{Use: "chronikctl", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(a))
	a.Prepare(root)
	root.SetArgs(append([]string{"snapshot"}, strings.Fields(line)...))
	err = root.ExecuteContext(context.Background())
	return b.String(), errs.String(), app.ExitCode(err), err
}

// three are snapshots of all kinds.
func three() []view.Snapshot {
	return []view.Snapshot{
		{Number: 5, TimeMs: 1_900_000_000_000, EndedMs: 1_900_000_001_230, Partitions: 4, Bytes: 3 << 20, UploadedBytes: 3 << 20,
			VerifiedMs: 1_900_000_100_000},
		{Number: 9, TimeMs: 1_900_000_300_000, EndedMs: 1_900_000_300_050, Partitions: 4, Offline: 1, Bytes: 4 << 20,
			UploadedBytes: 1 << 20},
		{Number: 12, TimeMs: 1_900_000_600_000, EndedMs: 1_900_000_600_050, Partitions: 4, Bytes: 4 << 20, UploadedBytes: 10,
			VerifiedMs: 1_900_000_700_000, Note: "broker 2: t-1 begins later", Damage: "object pack/0 not found"},
	}
}

// commands are command lines, and what they print.
var commands = []struct {
	what  string
	line  string
	set   func(f *fake)
	code  int
	text  []string // in the output, the notes or the error
	asked []view.SnapshotAsk
}{
	{"an empty list", "list", nil, 0, []string{"no snapshots"}, nil},
	{"a list", "list", func(f *fake) { f.list.Snapshots = three() }, 0,
		[]string{"NUMBER", "2030-03-17T17:46:40Z", "1.23s", "complete", "incomplete", "damaged", "never",
			"snapshot 12: broker 2: t-1 begins later"}, nil},
	{"without an object store", "list", func(f *fake) { f.list.Service.URL = "" }, 0,
		[]string{"no snapshots are taken: archive.url is not set"}, nil},
	{"a snapshot in progress, after failures", "list", func(f *fake) {
		f.list.Service.Running = &view.RunningSnapshot{Number: 20, SinceMs: 1_900_000_000_000, UploadedBytes: 1 << 20, TotalBytes: 2 << 20}
		f.list.Service.Failures, f.list.Service.LastError, f.list.Service.LastFailureMs = 2, "it is full", 1_900_000_000_000
	}, 0, []string{"being taken since 2030-03-17T17:46:40Z: 1", "of about 2",
		"the last 2 attempts failed, at 2030-03-17T17:46:40Z: it is full"}, nil},
	{"no metadata leader", "list", func(f *fake) { f.list.Service, f.list.Error = nil, "it does not answer" }, 0,
		[]string{"it does not answer"}, nil},
	{"JSON has no notes", "list -o json", func(f *fake) { f.list.Snapshots, f.list.Service.Failures = three(), 2 }, 0,
		[]string{`"number": 12`, `"damage": "object pack/0 not found"`}, nil},
	{"a snapshot", "describe 5", func(f *fake) { f.list.Snapshots = three() }, 0,
		[]string{"snapshot 5  taken 2030-03-17T17:46:40Z in 1.23s  4 partitions, 0 offline"}, nil},
	{"a damaged snapshot", "describe 12", func(f *fake) { f.list.Snapshots = three() }, 0,
		[]string{"broker 2: t-1 begins later", "damaged: object pack/0 not found"}, nil},
	{"an unknown snapshot", "describe 6", func(f *fake) { f.list.Snapshots = three() }, 1,
		[]string{"there is no snapshot 6; chronikctl snapshot list shows them"}, nil},
	{"no number", "describe x", nil, 2, []string{`"x" is not the number of a snapshot`}, nil},
	{"a number below 1", "delete 0", nil, 2, []string{`"0" is not the number of a snapshot`}, nil},
	{"no argument", "verify", nil, 2, []string{"the number of a snapshot"}, nil},
	{"an argument too many", "create 5", nil, 2, []string{"no argument"}, nil},
	{"another word", "restore", nil, 2, []string{"chronikd restore URL"}, nil},
	{"create", "create", func(f *fake) {
		f.list.Snapshots = three()
		f.outcome(view.SnapshotOutcome{ID: 3, Number: 12})
	}, 0, []string{"snapshot 12  taken"}, []view.SnapshotAsk{{Action: "create"}}},
	{"create with partitions that no broker can read", "create", func(f *fake) {
		f.outcome(view.SnapshotOutcome{ID: 3, Error: "no broker can read t-0", Offline: true})
	}, 4, []string{"take a snapshot: no broker can read t-0"}, []view.SnapshotAsk{{Action: "create"}}},
	{"create without them", "create --allow-offline", func(f *fake) {
		f.list.Snapshots = three()
		f.outcome(view.SnapshotOutcome{ID: 3, Number: 9})
	}, 0, []string{"snapshot 9  taken", "1 offline"}, []view.SnapshotAsk{{Action: "create", AllowOffline: true}}},
	{"create that fails", "create", func(f *fake) { f.outcome(view.SnapshotOutcome{ID: 3, Error: "it is full"}) }, 1,
		[]string{"take a snapshot: it is full"}, []view.SnapshotAsk{{Action: "create"}}},
	{"create that is refused", "create", func(f *fake) { f.answer = view.SnapshotAnswer{Error: "there is no object store"} }, 1,
		[]string{"take a snapshot: there is no object store"}, []view.SnapshotAsk{{Action: "create"}}},
	{"another leader meanwhile", "create", func(f *fake) { f.onAsk = func(f *fake) { f.list.Service.Term = 8 } }, 1,
		[]string{"another broker leads the metadata now", "run the command again"}, []view.SnapshotAsk{{Action: "create"}}},
	{"no leader for a while", "create", func(f *fake) {
		f.list.Snapshots = three()
		f.outcome(view.SnapshotOutcome{ID: 3, Number: 12})
		ask := f.onAsk
		f.onAsk = func(f *fake) {
			ask(f)
			outcome, service := f.onList, f.list.Service
			f.list.Service = nil
			f.onList = func(f *fake) {
				f.list.Service = service
				outcome(f)
			}
		}
	}, 0, []string{"snapshot 12  taken"}, []view.SnapshotAsk{{Action: "create"}}},
	{"verify", "verify 5", func(f *fake) {
		f.list.Snapshots = three()
		f.outcome(view.SnapshotOutcome{ID: 3, Number: 5})
	}, 0, []string{"snapshot 5  taken"}, []view.SnapshotAsk{{Action: "verify", Number: 5}}},
	{"verify of a damaged one", "verify 12", func(f *fake) {
		f.outcome(view.SnapshotOutcome{ID: 3, Number: 12, Error: "object not found"})
	}, 1,
		[]string{"verify snapshot 12: object not found"}, []view.SnapshotAsk{{Action: "verify", Number: 12}}},
	{"delete without a confirmation", "delete 5", func(f *fake) { f.list.Snapshots = three() }, 5,
		[]string{"delete snapshot 5", "--yes"}, nil},
	{"delete of an unknown one", "delete 6", nil, 1, []string{"there is no snapshot 6"}, nil},
	{"delete", "delete 5 --yes", func(f *fake) { f.list.Snapshots = three(); f.outcome(view.SnapshotOutcome{ID: 3, Number: 5}) }, 0, []string{"snapshot 5", "deleted"},
		[]view.SnapshotAsk{{Action: "delete", Number: 5}}},
	{"delete as a trial", "delete 5 --dry-run", func(f *fake) { f.list.Snapshots = three() }, 0, []string{"snapshot 5  taken"}, nil},
	{"delete as a trial of an unknown one", "delete 6 --dry-run", nil, 1, []string{"there is no snapshot 6"}, nil},
	{"a broker of another kind", "list", func(f *fake) { f.other = true }, 1, []string{"the broker knows no snapshots; upgrade it"}, nil},
	{"a change at a broker of another kind", "create", func(f *fake) { f.other = true }, 1,
		[]string{"take a snapshot: the broker knows no snapshots; upgrade it"}, []view.SnapshotAsk{{Action: "create"}}},
	{"no right to list", "list", func(f *fake) { f.code = kerr.ClusterAuthorizationFailed.Code }, 1,
		[]string{"list snapshots: CLUSTER_AUTHORIZATION_FAILED"}, nil},
	{"no right to change", "create", func(f *fake) { f.code, f.message = kerr.ClusterAuthorizationFailed.Code, "because" }, 1,
		[]string{"take a snapshot: CLUSTER_AUTHORIZATION_FAILED", "because"}, []view.SnapshotAsk{{Action: "create"}}},
}

// What commands print, and how they end.
func TestCommands(t *testing.T) {
	for _, c := range commands {
		t.Run(c.what, func(t *testing.T) {
			f := newFake(t)
			if c.set != nil {
				c.set(f)
			}
			out, notes, code, err := f.run(t, c.line)
			all := out + notes
			if err != nil {
				all += err.Error()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if code != c.code || !slices.Equal(f.asked, c.asked) {
				t.Errorf("code %d, %v; asked %+v\n%s", code, err, f.asked, all)
			}
			for _, text := range c.text {
				if !strings.Contains(all, text) {
					t.Errorf("%q is missing:\n%s", text, all)
				}
			}
			if c.what == "JSON has no notes" && notes != "" {
				t.Errorf("notes %s", notes)
			}
		})
	}
}
