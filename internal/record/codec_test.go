package record

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestKnownCodecs(t *testing.T) {
	for _, c := range allCodecs {
		if !c.Known() {
			t.Errorf("%s is not known", c)
		}
	}
	if Codec(5).Known() || Codec(-1).Known() {
		t.Error("a codec that does not exist is known")
	}
}

// The protocol has only numbers.
func TestCodecNumbers(t *testing.T) {
	for ours, theirs := range map[Codec]kgo.CompressionCodecType{None: kgo.CodecNone, Gzip: kgo.CodecGzip,
		Snappy: kgo.CodecSnappy, Lz4: kgo.CodecLz4, Zstd: kgo.CodecZstd} {
		if int(ours) != int(theirs) {
			t.Errorf("%s is %d, want %d", ours, ours, theirs)
		}
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		codec   Codec
		allowed []int
		refused []int
	}{
		{Gzip, []int{-1, 1, 6, 9}, []int{-2, 0, 10}},
		{Lz4, []int{1, 9, 17}, []int{-1, 0, 18}},
		{Zstd, []int{-131072, 0, 3, 22}, []int{-131073, 23}},
		{Snappy, []int{0, 99}, nil},
		{None, []int{0, 99}, nil},
	} {
		for _, l := range c.allowed {
			comp, err := CompressWith(c.codec, l)
			if err != nil {
				t.Errorf("%s level %d: %v", c.codec, l, err)
				continue
			}
			_, b := mustAccept(t, &Rules{Compression: comp}, foreignBatch(t, None, sample(), nil))
			if _, recs := foreignDecode(t, b); len(recs) != len(sample()) {
				t.Errorf("%s level %d: %d records come out", c.codec, l, len(recs))
			}
		}
		for _, l := range c.refused {
			if _, err := CompressWith(c.codec, l); err == nil {
				t.Errorf("%s level %d is allowed", c.codec, l)
			}
		}
	}
	if _, err := CompressWith(5, 0); err == nil {
		t.Error("codec 5 is allowed")
	}
}

// This test detects a level that is parsed but not used.
func TestLevelsDiffer(t *testing.T) {
	recs := []Record{{Timestamp: 1}}
	for i := range 3000 { // text that compresses better at higher levels
		recs[0].Value = append(recs[0].Value, []byte("the log of a broker holds records ")[i%7*4:i%7*4+3+i*i%5]...)
	}
	size := func(c Codec, level int) int {
		comp, err := CompressWith(c, level)
		must.OK(t, err)
		a, _ := mustAccept(t, &Rules{Compression: comp}, foreignBatch(t, None, recs, nil))
		return len(a.Bytes)
	}
	for _, c := range []struct {
		codec     Codec
		fast, low int
	}{{Gzip, 1, 9}, {Lz4, 9, 17}, {Zstd, 1, 22}} {
		if fast, low := size(c.codec, c.fast), size(c.codec, c.low); fast <= low {
			t.Errorf("%s: level %d makes %d bytes, level %d makes %d", c.codec, c.fast, fast, c.low, low)
		}
	}
}

func TestParseCompression(t *testing.T) {
	for name, want := range map[string]Codec{"uncompressed": None, "gzip": Gzip, "snappy": Snappy, "lz4": Lz4, "zstd": Zstd} {
		c, err := ParseCompression(name, DefaultLevels())
		if codec, keep := c.Codec(); err != nil || keep || codec != want {
			t.Errorf("%s: %s, keep %v, %v", name, codec, keep, err)
		}
	}
	if c, err := ParseCompression("producer", Levels{}); err != nil || c != (Compression{}) {
		t.Errorf("producer: %+v, %v", c, err)
	}
	for _, name := range []string{"", "none", "Gzip"} {
		if _, err := ParseCompression(name, DefaultLevels()); err == nil {
			t.Errorf("%q is allowed", name)
		}
	}
	if _, err := ParseCompression("lz4", Levels{Lz4: 18}); err == nil {
		t.Error("lz4 level 18 is allowed")
	}
}
