package admin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// batchOf returns a batch with these values from an offset on.
func batchOf(t *testing.T, codec record.Codec, base int64, control bool, values ...[]byte) record.Batch {
	t.Helper()
	c, err := record.CompressWith(codec, 0)
	if codec == record.Gzip {
		c, err = record.CompressWith(codec, 6)
	}
	must.OK(t, err)
	w := record.NewBuilder(record.BatchOptions{BaseOffset: base, Compression: c, Control: control})
	for i, v := range values {
		w.Append(1_700_000_000_000+int64(i), fmt.Append(nil, "key-", i), v, []record.Header{{Key: []byte("h"), Value: nil}})
	}
	b, err := w.Build()
	must.OK(t, err)
	return b
}

func TestRecordsAreCutAndCopied(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 3*page.MaxShown)
	c := collector{from: 11, next: 11, most: 10, bytes: recordBytes, inflate: record.Limits{Bytes: recordInflated}}
	b := batchOf(t, record.None, 10, false, []byte("before"), nil, []byte{}, long)
	if !c.add(b) || c.next != 14 || c.bytes != recordBytes-int64(b.Size()) {
		t.Errorf("%+v", c)
	}
	for i := range b {
		b[i] = 0 // the batch's memory is reused
	}
	if len(c.list) != 3 || c.list[0].Offset != 11 || c.list[0].Value != nil || c.list[1].Value == nil ||
		len(c.list[2].Value) != page.MaxShown ||
		c.list[2].ValueSize != len(long) || string(c.list[2].Key) != "key-3" || c.list[2].HeaderCount != 1 ||
		c.list[2].Headers[0].Key != "h" ||
		c.list[2].Headers[0].Value != nil ||
		c.list[2].Time.UnixMilli() != 1_700_000_000_003 {
		t.Errorf("%+v", c.list)
	}
	var many []record.Header
	for range 3 * page.MaxHeaders {
		many = append(many, record.Header{Key: []byte("h")})
	}
	x := recordOf(&record.Record{Timestamp: -1, Headers: record.HeadersOf(many...)})
	if len(x.Headers) != page.MaxHeaders || x.HeaderCount != len(many) ||
		!x.Time.IsZero() {
		t.Errorf("%+v", x)
	}
}

// A page holds the records that it shows, and not the millions of their batch.
func TestAPageEndsInsideABatch(t *testing.T) {
	b := batchOf(t, record.Zstd, 100, false, make([][]byte, 200_000)...)
	c := collector{from: 150, next: 150, most: 10, bytes: recordBytes, inflate: record.Limits{Bytes: recordInflated}}
	if c.add(b) || c.note != "" || c.next != 160 || len(c.list) != 10 || c.list[0].Offset != 150 || c.list[9].Offset != 159 {
		t.Errorf("%d records, next %d, %q", len(c.list), c.next, c.note)
	}
	c = collector{most: 2, bytes: recordBytes, inflate: record.Limits{Bytes: recordInflated}}
	if !c.add(batchOf(t, record.None, 0, false, nil, nil)) || c.next != 2 || c.add(batchOf(t, record.None, 7, false, nil)) || c.next != 7 {
		t.Errorf("a page that ends with a batch continues at %d", c.next)
	}
}

// A batch that decompresses to more than a page may read ends the reading, with the reason.
func TestABatchThatInflatesIsNotShown(t *testing.T) {
	zeros := make([]byte, 1<<20)
	b := batchOf(t, record.Gzip, 0, false, []byte("small"), zeros, zeros)
	if b.Size() > 64<<10 {
		t.Fatalf("the compressed batch has %d bytes", b.Size())
	}
	c := collector{most: 10, bytes: recordBytes, inflate: record.Limits{Bytes: 1 << 20}}
	if c.add(b) || !strings.Contains(c.note, "decompresses at most 64 MiB") || len(c.list) != 1 {
		t.Errorf("%q with %d records", c.note, len(c.list))
	}
	c = collector{most: 10, bytes: recordBytes, inflate: record.Limits{Bytes: 3 << 20}}
	if !c.add(b) || c.inflate.Bytes > 1<<20 || len(c.list) != 3 {
		t.Errorf("%q, %d bytes left, %d records", c.note, c.inflate.Bytes, len(c.list))
	}
	if c.add(b) {
		t.Error("a second batch has a budget of its own")
	}
}

func TestBatchesWithoutRecordsOfClients(t *testing.T) {
	c := collector{most: 10, bytes: recordBytes, inflate: record.Limits{Bytes: recordInflated}}
	if !c.add(batchOf(t, record.None, 5, true, []byte("marker"))) || len(c.list) != 0 || c.next != 6 {
		t.Errorf("a control batch: %+v", c)
	}
	broken := batchOf(t, record.None, 6, false, []byte("value"))
	for i := record.HeaderSize; i < len(broken); i++ {
		broken[i] = 0xff
	}
	if c.add(broken) || !strings.Contains(c.note, "The batch at offset 6 cannot be shown") {
		t.Errorf("%q", c.note)
	}
}
