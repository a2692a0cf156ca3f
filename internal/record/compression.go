package record

import "fmt"

// The bounds of Kafka's compression.gzip.level, compression.lz4.level and
// compression.zstd.level (KIP-390, KIP-780).
const (
	gzipDefault = -1 // the library's own choice, 6
	gzipMin     = 1
	gzipMax     = 9

	lz4Default = 9 // lz4's fast compressor; every other level selects its high-compression one
	lz4Min     = 1
	lz4Max     = 17

	zstdDefault = 3
	zstdMin     = -131072
	zstdMax     = 22
)

// Levels holds a level for each codec that has levels, as configured for a topic.
type Levels struct {
	Gzip int // compression.gzip.level: 1 to 9, or -1
	Lz4  int // compression.lz4.level: 1 to 17
	Zstd int // compression.zstd.level: -131072 to 22
}

// DefaultLevels returns Kafka's defaults.
func DefaultLevels() Levels {
	return Levels{Gzip: gzipDefault, Lz4: lz4Default, Zstd: zstdDefault}
}

// CheckLevel returns an error if Kafka does not allow the level for the codec. Codecs without
// levels allow any, because they ignore it.
func (c Codec) CheckLevel(level int) error {
	switch {
	case c == Gzip && (level < gzipMin || level > gzipMax) && level != gzipDefault:
		return fmt.Errorf("gzip level %d: must be between %d and %d, or %d", level, gzipMin, gzipMax, gzipDefault)
	case c == Lz4 && (level < lz4Min || level > lz4Max):
		return fmt.Errorf("lz4 level %d: must be between %d and %d", level, lz4Min, lz4Max)
	case c == Zstd && (level < zstdMin || level > zstdMax):
		return fmt.Errorf("zstd level %d: must be between %d and %d", level, zstdMin, zstdMax)
	}
	return nil
}

// Compression is the codec and level that batches are stored with. The zero value keeps the codec
// that the producer chose; ParseCompression and CompressWith return others.
type Compression struct {
	set   bool
	codec Codec
	level int
}

// CompressWith returns the Compression that stores batches with codec c. A batch that already has
// that codec is kept, whatever its level.
func CompressWith(c Codec, level int) (Compression, error) {
	if !c.Known() {
		return Compression{}, fmt.Errorf("compress records: unknown %s", c)
	}
	if err := c.CheckLevel(level); err != nil {
		return Compression{}, fmt.Errorf("compress records: %w", err)
	}
	return Compression{set: true, codec: c, level: level}, nil
}

// ParseCompression parses a value of the topic config compression.type: producer, uncompressed,
// gzip, snappy, lz4 or zstd. It uses the level of that codec.
func ParseCompression(name string, l Levels) (Compression, error) {
	switch name {
	case "producer":
		return Compression{}, nil
	case "uncompressed":
		return CompressWith(None, 0)
	case "gzip":
		return CompressWith(Gzip, l.Gzip)
	case "snappy":
		return CompressWith(Snappy, 0)
	case "lz4":
		return CompressWith(Lz4, l.Lz4)
	case "zstd":
		return CompressWith(Zstd, l.Zstd)
	}
	return Compression{}, fmt.Errorf("unknown compression.type %q: use producer, uncompressed, gzip, snappy, lz4 or zstd", name)
}

// Codec returns the codec that batches are stored with; keep is true if batches keep the producer's
// codec.
func (c Compression) Codec() (codec Codec, keep bool) { return c.codec, !c.set }
