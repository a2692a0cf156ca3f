package ctl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is one command line with this standard input.
func run(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, "v1.2.3", Streams{In: strings.NewReader(in), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A wrong command line ends with 2 before anything is sent: the broker that it
// names does not exist, which would be a 3.
func TestUsageErrorsAreToldBeforeAnythingIsSent(t *testing.T) {
	at := "--brokers=" + closedPort(t)
	for _, args := range [][]string{
		{"topic", "create"}, {"topic", "lst"}, {"topic", "create", "x", "--config", "a"}, {"topic", "list", "x"},
		{"produce"}, {"produce", "a", "b"}, {"produce", "a", "--acks", "2"}, {"produce", "a", "--compression", "zip"},
		{"produce", "a", "--header", "x"}, {"produce", "a", "--max-batch-bytes", "1"}, {"consume"}, {"consume", "a", "--from", "now"}, {"consume", "a", "--from", "-3"},
		{"consume", "a", "--count", "-1"}, {"--wrong"}, {"topic", "describe", "--partitons", "1"},
	} {
		code, out, errs := run(t, "", append(args, at)...)
		if code != ExitUsage || out != "" || !strings.HasPrefix(errs, "chronikctl: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

func TestNobodyThereIsItsOwnCode(t *testing.T) {
	at := closedPort(t)
	for _, args := range [][]string{{"topic", "list"}, {"topic", "create", "x"}, {"topic", "describe", "x"}, {"topic", "delete", "x"},
		{"produce", "x"}, {"consume", "x"}} {
		code, out, errs := run(t, "line\n", append(args, "--brokers", at)...)
		if code != ExitUnreachable || out != "" || !strings.Contains(errs, at) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

func TestBrokersComeFromTheFlagElseTheVariable(t *testing.T) {
	var e bytes.Buffer
	fromEnv, fromFlag := closedPort(t), closedPort(t)
	s := Streams{In: strings.NewReader(""), Out: &e, Err: &e, Brokers: fromEnv}
	Main(t.Context(), []string{"topic", "list"}, "v", s)
	if !strings.Contains(e.String(), fromEnv) {
		t.Errorf("the variable was not used: %s", e.String())
	}
	e.Reset()
	Main(t.Context(), []string{"topic", "list", "--brokers", fromFlag}, "v", s)
	if !strings.Contains(e.String(), fromFlag) || strings.Contains(e.String(), fromEnv) {
		t.Errorf("the flag was not used: %s", e.String())
	}
}

func TestVersionAndHelp(t *testing.T) {
	if code, out, _ := run(t, "", "version"); code != ExitOK || out != "v1.2.3\n" {
		t.Errorf("version: %d %q", code, out)
	}
	for _, args := range [][]string{{}, {"topic"}, {"consume", "--help"}} {
		if code, out, errs := run(t, "", args...); code != ExitOK || !strings.Contains(out, "Usage:") || errs != "" {
			t.Errorf("%v: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}

// A line is what stands between newlines, byte for byte.
func TestLinesAreKeptByteForByte(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "a": {"a"}, "a\n": {"a"}, "a\nb": {"a", "b"}, "\n\n": {"", ""}, "a\r\nb\r\n": {"a\r", "b\r"}, "\x00\xff\n": {"\x00\xff"},
	} {
		s := bufio.NewScanner(strings.NewReader(in))
		s.Split(wholeLines)
		var got []string
		for s.Scan() {
			got = append(got, s.Text())
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestWhereToStart(t *testing.T) {
	for _, c := range []struct {
		from string
		want int64
	}{{"earliest", 5}, {"latest", 9}, {"0", 0}, {"7", 7}} {
		o := consumeOptions{from: c.from}
		if got, err := o.start(5, 9); err != nil || got != c.want {
			t.Errorf("%s: %d, %v", c.from, got, err)
		}
	}
}

func rec(partition int32, offset int64) *kgo.Record {
	return &kgo.Record{Partition: partition, Offset: offset, Key: []byte("k"), Value: fmt.Appendf(nil, "v%d", offset),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}}
}

// Without --follow the output is what the topic held when it was asked.
func TestOnlyWhatWasThereIsPrinted(t *testing.T) {
	var out bytes.Buffer
	r := reader{out: bufio.NewWriter(&out), left: map[int32]int64{0: 2, 1: 1}}
	for _, x := range []*kgo.Record{rec(0, 0), rec(1, 0), rec(1, 1), rec(0, 1), rec(0, 2), rec(2, 0)} {
		if full, err := r.record(x); full || err != nil {
			t.Fatal(full, err)
		}
	}
	_ = r.out.Flush()
	if out.String() != "v0\nv0\nv1\n" || len(r.left) != 0 {
		t.Errorf("printed %q, still waiting for %v", out.String(), r.left)
	}
}

func TestCountAndFormat(t *testing.T) {
	var out bytes.Buffer
	r := reader{out: bufio.NewWriter(&out), consumeOptions: consumeOptions{follow: true, count: 2, separator: "=", headers: true, offsets: true}}
	full1, _ := r.record(rec(3, 7))
	full2, _ := r.record(rec(3, 8))
	_ = r.out.Flush()
	if full1 || !full2 || out.String() != "3:7\th=1\tk=v7\n3:8\th=1\tk=v8\n" {
		t.Errorf("full %v %v, printed %q", full1, full2, out.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }

func TestABrokenPipeIsAnError(t *testing.T) {
	r := reader{out: bufio.NewWriterSize(brokenPipe{}, 16), left: map[int32]int64{0: 100}}
	var err error
	for i := int64(0); i < 20 && err == nil; i++ {
		_, err = r.record(rec(0, i))
	}
	if err == nil {
		t.Error("no error")
	}
}

func TestSoftwareVersionIsWhatKIP511Allows(t *testing.T) {
	for in, want := range map[string]string{"v1.2.3": "v1.2.3", "abc+dirty": "abc-dirty", "": "unknown", "...": "unknown", "a b": "a-b"} {
		if got := softwareVersion(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestAnInterruptedRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e bytes.Buffer
	if code := Main(ctx, []string{"topic", "list", "--brokers", closedPort(t)}, "v", Streams{In: strings.NewReader(""), Out: &o, Err: &e}); code == ExitOK {
		t.Errorf("code %d, %s", code, e.String())
	}
}
