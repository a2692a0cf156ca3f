package parse

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("here", 3600)) }

func TestTimesAreReadInEveryFormThatIsDocumented(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-02":                    "2026-01-01T23:00:00Z",
		"2026-01-02 03:04":              "2026-01-02T02:04:00Z",
		"2026-01-02 03:04:05":           "2026-01-02T02:04:05Z",
		"2026-01-02T03:04:05.25":        "2026-01-02T02:04:05.25Z",
		"2026-01-02T03:04:05Z":          "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.123+02:00": "2026-01-02T01:04:05.123Z",
		"@0":                            "1970-01-01T00:00:00Z",
		"@1700000000123":                "2023-11-14T22:13:20.123Z",
		"90s":                           "2026-03-04T04:04:37Z",
		"2h":                            "2026-03-04T02:06:07Z",
		"1d":                            "2026-03-03T04:06:07Z",
		"0s":                            "2026-03-04T04:06:07Z",
	} {
		got, err := Time(in, now())
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v; want %s", in, got.UTC(), err, want)
		}
	}
	for _, in := range []string{"", "now", "0", "12", "-2h", "+2h", "2026-13-01", "@", "@-5", "@99999999999999999999", "d", "1.5d",
		"1600-01-01", "@9223372036854775807"} {
		if got, err := Time(in, now()); err == nil {
			t.Errorf("%q is read as %v", in, got)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("%q", in)) {
			t.Errorf("%q is not in %v", in, err)
		}
	}
}

func TestPositions(t *testing.T) {
	for in, want := range map[string]Position{
		"earliest": {Kind: Earliest}, "beginning": {Kind: Earliest}, "Latest": {Kind: Latest}, "end": {Kind: Latest},
		"0": {Kind: At}, "42": {Kind: At, Offset: 42}, "-5": {Kind: BeforeN, Offset: 5},
		"5m": {Kind: FromTime, Time: now().Add(-5 * time.Minute)},
	} {
		got, err := ReadPosition(in, now())
		if err != nil || got.Kind != want.Kind || got.Offset != want.Offset || !got.Time.Equal(want.Time) {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "now", "+5", "-0", "1e3", "-9223372036854775808", "-5m", "0x10"} {
		if got, err := ReadPosition(in, now()); err == nil {
			t.Errorf("%q is read as %+v", in, got)
		}
	}
}

func TestPartitions(t *testing.T) {
	for in, want := range map[string]string{"": "[]", "3": "[3]", "5-7,0,6": "[0 5 6 7]", "2147483647": "[2147483647]"} {
		if got, err := Partitions(in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{",", "a", "-1", "3-1", "1-", "0-99999999", "2147483648", "1,,2", "+1"} {
		if got, err := Partitions(in); err == nil {
			t.Errorf("%q is read as %v", in, got)
		}
	}
}

func TestTopicPartitions(t *testing.T) {
	for in, want := range map[string]string{"a": "a []", "a.b:1-2": "a.b [1 2]"} {
		topic, list, err := TopicPartitions(in)
		if got := fmt.Sprint(topic, " ", list); err != nil || got != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ":", ":1", "a:", "a:b"} {
		if _, _, err := TopicPartitions(in); err == nil {
			t.Errorf("%q is read", in)
		}
	}
}

func TestKeyValues(t *testing.T) {
	got, err := KeyValues([]string{"a=1", "b=", "c=x=y"})
	if err != nil || fmt.Sprint(got) != "map[a:1 b: c:x=y]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, in := range [][]string{{"a"}, {"=1"}, {""}, {"a=1", "a=2"}} {
		if _, err := KeyValues(in); err == nil {
			t.Errorf("%q is read", in)
		}
	}
}

func TestOffsetsOfAFile(t *testing.T) {
	got, err := Offsets(strings.NewReader("# t,p,o\n\na,0,5\n \"b\" , 1 , 0 \ngroup,c,2,7\r\n"))
	if err != nil || fmt.Sprint(got) != "[{ a 0 5} { b 1 0} {group c 2 7}]" {
		t.Errorf("%v, %v", got, err)
	}
	for in, want := range map[string]string{
		"a,0": "line 1", "a,0,1\na,0,2\n": "line 2: a partition 0 is already in line 1", "a,x,1": "line 1", "a,0,-1": "line 1",
		",0,1": "line 1", "a,b,c,d,e": "line 1", ",a,0,1": "line 1", "g,a,0,1\ng,a,0,2": "line 2: a partition 0 is already in line 1",
		"a,2147483648,0": "line 1", "a,0,9223372036854775808": "line 1",
	} {
		if got, err := Offsets(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

// The bytes of a file of offsets, which later versions and Kafka's own tool read too.
func TestFormatIsFixed(t *testing.T) {
	list := []TopicOffset{{Topic: "orders", Partition: 3, Offset: 1 << 40}, {Group: "audit", Topic: "orders", Offset: 7},
		{Group: "a \"quoted\", group", Topic: "t", Partition: 1}, {Group: "#group", Topic: "t", Partition: 2, Offset: 5}}
	var written strings.Builder
	must.OK(t, WriteOffsets(&written, list))
	golden.File(t, "testdata/offsets.csv", written.String(), "go test ./internal/tools/ctl/parse -run FormatIsFixed")
	kept, err := os.ReadFile("testdata/offsets.csv")
	must.OK(t, err)
	if again, err := Offsets(strings.NewReader(string(kept))); err != nil || !slices.Equal(again, list) {
		t.Errorf("the kept file has %+v, %v", again, err)
	}
}

// ReadPosition parses what String returns to the same position.
func FuzzPosition(f *testing.F) {
	for _, s := range []string{"earliest", "latest", "7", "-7", "2026-01-02", "@5", "5m", "2026-01-02T03:04:05+01:00", "9999-12-31",
		"65535d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ReadPosition(s, now())
		if err != nil {
			return
		}
		again, err := ReadPosition(p.String(), now())
		if err != nil || again.Kind != p.Kind || again.Offset != p.Offset || !again.Time.Equal(p.Time) {
			t.Errorf("%q is %+v, written %s, which is %+v, %v", s, p, p, again, err)
		}
	})
}

func FuzzPartitions(f *testing.F) {
	f.Add("0,2,5-7")
	f.Add("2147483647")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := Partitions(s)
		for i, p := range list {
			if err != nil || p < 0 || i > 0 && list[i-1] >= p {
				t.Errorf("%q: %v, %v", s, list, err)
			}
		}
	})
}

func FuzzOffsets(f *testing.F) {
	f.Add("a,0,5\n# x\n\"b\",1,2")
	f.Add("\"a \"\", #g\",t,0,5\n\"#\",t,0,5\n g\"h,t,0,5")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := Offsets(strings.NewReader(s))
		for _, o := range list {
			if err != nil || o.Topic == "" || o.Partition < 0 || o.Offset < 0 {
				t.Errorf("%q: %+v, %v", s, o, err)
			}
		}
		var written strings.Builder
		must.OK(t, WriteOffsets(&written, list))
		if again, err := Offsets(strings.NewReader(written.String())); err != nil || !slices.Equal(again, list) {
			t.Errorf("%q is %+v, written as %q, which is %+v, %v", s, list, written.String(), again, err)
		}
	})
}
