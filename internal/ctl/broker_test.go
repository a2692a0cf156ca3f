package ctl_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/ctl"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// shell runs command lines against one broker.
type shell struct {
	*testing.T
	at string
}

func newShell(t *testing.T, settings map[string]string) shell {
	return shell{t, chronik.StartTest(t, chronik.Options{Settings: settings}).Addr()}
}

// run is one command line; words are split at blanks.
func (s shell) run(in, line string) (code int, out, errs string) {
	s.Helper()
	var o, e bytes.Buffer
	code = ctl.Main(s.Context(), strings.Fields(line), "v1", ctl.Streams{In: strings.NewReader(in), Out: &o, Err: &e, Brokers: s.at})
	return code, o.String(), e.String()
}

// want is run, and its output must be out.
func (s shell) want(in, line, out string) {
	s.Helper()
	if code, got, errs := s.run(in, line); code != ctl.ExitOK || got != out {
		s.Errorf("%s: code %d, error %q\n got %q\nwant %q", line, code, errs, got, out)
	}
}

// refused is run, and must fail with one line that matches.
func (s shell) refused(in, line, match string) {
	s.Helper()
	code, out, errs := s.run(in, line)
	last := errs[strings.LastIndex(strings.TrimSuffix(errs, "\n"), "\n")+1:]
	if code != ctl.ExitFailed || !regexp.MustCompile(match).MatchString(last) || !strings.HasPrefix(last, "chronikctl: ") {
		s.Errorf("%s: code %d, out %q\n got %q\nwant %s", line, code, out, errs, match)
	}
}

func TestTopicsComeAndGo(t *testing.T) {
	s := newShell(t, nil)
	s.want("", "topic list", "")
	s.want("", "topic create b a --partitions 3 --config chronik.durability.profile=os", "b created\na created\n")
	s.want("", "topic list", "a\nb\n")
	s.refused("", "topic create a c", `create a: TOPIC_ALREADY_EXISTS.*'a' already exists`)
	s.want("", "topic list", "a\nb\nc\n") // one that fails keeps no other
	s.want("", "topic create a --if-not-exists", "a exists\n")
	s.want("", "topic delete a", "a deleted\n")
	s.refused("", "topic delete a b", `delete a: UNKNOWN_TOPIC_OR_PARTITION`)
	s.want("", "topic list", "c\n")
	s.refused("", "topic create bad!name", `INVALID_TOPIC_EXCEPTION`)
	s.refused("", "topic create x --partitions 0", `INVALID_PARTITIONS`)
	s.refused("", "topic create x --replication-factor 3", `INVALID_REPLICATION_FACTOR`)
	s.refused("", "topic create x --config segment.byte=1", `segment.byte`)
	s.want("", "topic list", "c\n")
}

func TestDescribeShowsPartitionsOffsetsAndConfigs(t *testing.T) {
	s := newShell(t, nil)
	s.want("", "topic create a -p 2 -c chronik.durability.profile=os -c segment.bytes=1048576", "a created\n")
	s.want("x\ny\nz\n", "produce a -p 1", "")
	code, out, errs := s.run("", "topic describe a")
	want := regexp.MustCompile(`^topic a  id \S+  partitions 2  replication factor 1
config chronik.durability.profile=os
config segment.bytes=1048576
partition  leader  epoch  replicas  in sync  start  end
0 +1 +0 +1 +1 +0 +0
1 +1 +0 +1 +1 +0 +3
$`)
	if code != ctl.ExitOK || !want.MatchString(out) || errs != "" {
		t.Errorf("code %d, error %q\n%s", code, errs, out)
	}
	s.refused("", "topic describe none", `describe none: UNKNOWN_TOPIC_OR_PARTITION`)
	if code, out, _ := s.run("", "topic describe none a"); code != ctl.ExitFailed || !want.MatchString(out) {
		t.Errorf("the one that exists is not shown: code %d\n%s", code, out)
	}
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	s := newShell(t, nil)
	s.want("", "topic create a", "a created\n")
	code, out, errs := s.run("one\n\nthree\r\n\x00\xff", "produce a")
	if code != ctl.ExitOK || out != "" || errs != "4 records written to a\n" {
		t.Errorf("code %d, out %q, error %q", code, out, errs)
	}
	s.want("", "consume a", "one\n\nthree\r\n\x00\xff\n")
	s.want("", "consume a -n 1", "one\n")
	s.want("", "consume a --from 2 --offsets", "0:2\tthree\r\n0:3\t\x00\xff\n")
	s.want("", "consume a --from latest", "")
	s.want("", "consume a --from 4", "")
	s.want("", "consume a --read-committed -n 1", "one\n")
	s.refused("", "consume a --from 5", `offset 5 is not between 0 and 4`)
	s.refused("", "consume a -p 7", `UNKNOWN_TOPIC_OR_PARTITION`)
	s.refused("", "consume none", `UNKNOWN_TOPIC_OR_PARTITION`)
}

func TestKeysHeadersCodecsAndAcks(t *testing.T) {
	s := newShell(t, nil)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, acks := range []string{"all", "1", "0"} {
			topic := codec + "-" + acks
			s.want("", "topic create "+topic, topic+" created\n")
			s.want("k=v\nk2=v=2\n", fmt.Sprintf("produce %s -k = -H from=here -H empty= --compression %s --acks %s", topic, codec, acks), "")
			if acks == "0" {
				continue // nobody said when it is there
			}
			s.want("", "consume "+topic+" -k = --headers", "from=here\tempty=\tk=v\nfrom=here\tempty=\tk2=v=2\n")
		}
	}
	// Records of one key stay together and in order.
	s.want("", "topic create spread -p 8", "spread created\n")
	s.want("a:1\nb:1\na:2\nb:2\na:3\n", "produce spread -k :", "")
	_, out, _ := s.run("", "consume spread -k : --offsets")
	where := map[string]string{}
	for line := range strings.Lines(out) {
		at, record, _ := strings.Cut(strings.TrimSpace(line), "\t")
		key, value, _ := strings.Cut(record, ":")
		partition, _, _ := strings.Cut(at, ":")
		where[key] += partition + "/" + value + " "
	}
	if a := strings.Fields(where["a"]); len(a) != 3 || a[0][:1] != a[2][:1] || !strings.HasSuffix(a[0], "/1") || !strings.HasSuffix(a[2], "/3") {
		t.Errorf("key a is at %v", a)
	}
}

func TestAProduceThatIsRefusedIsAFailure(t *testing.T) {
	s := newShell(t, map[string]string{"auto.create.topics.enable": "false"})
	s.refused("x\n", "produce none --timeout 2s", `line 1: .*(UNKNOWN_TOPIC_OR_PARTITION|timed out|deadline|timeout)`)
	s.want("", "topic create a -c max.message.bytes=100", "a created\n")
	s.refused(strings.Repeat("x", 200)+"\n", "produce a", `line 1: MESSAGE_TOO_LARGE`)
	s.refused("k=v\nno separator\n", "produce a -k =", `line 2 has no key separator "="; nothing of it was written`)
	s.want("", "consume a -k =", "k=v\n")
}

func TestProduceMakesTheTopicWhereTheBrokerDoes(t *testing.T) {
	s := newShell(t, map[string]string{"num.partitions": "2"})
	s.want("x\n", "produce new", "")
	if _, out, _ := s.run("", "topic describe new"); !strings.Contains(out, "partitions 2") {
		t.Errorf("%s", out)
	}
}

// --follow shows what comes later, and an interrupt ends it well.
func TestFollow(t *testing.T) {
	s := newShell(t, nil)
	s.want("first\n", "produce a", "")
	ctx, stop := context.WithCancel(t.Context())
	out := &watched{seen: make(chan string, 16)}
	done := make(chan int, 1)
	go func() {
		done <- ctl.Main(ctx, []string{"consume", "a", "--follow"}, "v1", ctl.Streams{In: strings.NewReader(""), Out: out, Err: &bytes.Buffer{}, Brokers: s.at})
	}()
	out.until(t, "first\n")
	s.want("second\n", "produce a", "")
	out.until(t, "first\nsecond\n")
	stop()
	if code := <-done; code != ctl.ExitOK {
		t.Errorf("code %d", code)
	}
}

// watched is an output that a test waits for.
type watched struct {
	mu   sync.Mutex
	all  string
	seen chan string
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all += string(p)
	w.seen <- w.all
	return len(p), nil
}

func (w *watched) until(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case all := <-w.seen:
			if all == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("%q was not printed", want)
		}
	}
}
