package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func same(t *testing.T, r *kgo.Record) {
	t.Helper()
	line, err := EncodeRecord(r)
	if err != nil || bytes.ContainsAny(line, "\n\r") {
		t.Fatalf("%q, %v", line, err)
	}
	got, err := DecodeRecord(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	equal := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	ok := equal(got.Key, r.Key) && equal(got.Value, r.Value) && got.Timestamp.Equal(r.Timestamp) && got.Partition == r.Partition &&
		len(got.Headers) == len(r.Headers)
	for i := range got.Headers {
		ok = ok && got.Headers[i].Key == r.Headers[i].Key && equal(got.Headers[i].Value, r.Headers[i].Value)
	}
	if !ok {
		t.Errorf("%+v came back as %+v\n%s", r, got, line)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	same(t, &kgo.Record{Topic: "t", Partition: 3, Offset: 7, Timestamp: now, Key: []byte("k"), Value: []byte("<v>\n&\x00")})
	same(t, &kgo.Record{Timestamp: now, Value: []byte{}})
	same(t, &kgo.Record{Timestamp: now, Key: []byte{0xff, 0}, Value: nil,
		Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte{0x80}}}})
}

// null always means a tombstone.
func TestBytesAreNotNull(t *testing.T) {
	line, err := EncodeRecord(&kgo.Record{Key: []byte{0xff}, Value: []byte{0xfe}, Timestamp: time.UnixMilli(0),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xfd}}}})
	if want := `{"partition":0,"offset":0,"timestamp":"1970-01-01T00:00:00Z","keyBase64":"/w==",` +
		`"valueBase64":"/g==","headers":[{"name":"h","valueBase64":"/Q=="}]}`; err != nil || string(line) != want {
		t.Errorf("%s, %v", line, err)
	}
	if line, err = EncodeRecord(&kgo.Record{Value: []byte("<a>&")}); err != nil ||
		!strings.HasSuffix(string(line), `"key":null,"value":"<a>&"}`) {
		t.Errorf("%s, %v", line, err)
	}
	if line, err = EncodeRecord(&kgo.Record{Timestamp: time.UnixMilli(0)}); err != nil ||
		!strings.HasSuffix(string(line), `"key":null,"value":null}`) {
		t.Errorf("%s, %v", line, err)
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "EOF",
		"[]":                             "cannot unmarshal",
		`{"valu":"x"}`:                   "unknown field",
		`{"value":"x"}{}`:                "more than one",
		`{"key":"x","keyBase64":"eA=="}`: "both key and keyBase64 are given",
		`{"headers":[{"name":"h","value":"x","valueBase64":"eA=="}]}`: "header h",
	} {
		if r, err := DecodeRecord([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", in, r, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"key":"k","value":null,"headers":[{"name":"h","value":"x"}],"timestamp":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"keyBase64":"/w==","partition":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if r, err := DecodeRecord(line); err == nil && r.Timestamp.Year() < 10_000 && r.Timestamp.Year() >= 0 {
			same(t, r)
		}
	})
}
