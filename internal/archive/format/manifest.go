package format

import (
	"encoding/binary"
	"fmt"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/objects"
)

// The versions of the contents that this program writes, which are the newest that it reads.
const (
	logVersion      = 1
	manifestVersion = 1
	packVersion     = 1
	indexVersion    = 1
)

// Older names another manifest of the same partition, which has the parts of [Base, End).
type Older struct {
	Base, End int64
	Nonce     objects.Nonce
	// Newest is the largest one of its runs, and FirstAborted the least one that is below the end
	// of its part; -1: they have none.
	Newest, FirstAborted int64
	Bytes                int64 // of the batches in its parts
}

// OlderOf returns the name of a manifest that has the nonce.
func OlderOf(m *Manifest, nonce objects.Nonce) Older {
	o := Older{Base: m.Base, End: m.End, Nonce: nonce, Newest: -1, FirstAborted: -1}
	o.Bytes = BytesOf(m.Parts)
	for i := range m.Parts {
		r := &m.Parts[i].Run
		o.Newest = max(o.Newest, r.Newest)
		if r.FirstAborted >= 0 && r.FirstAborted < m.Parts[i].End && (o.FirstAborted < 0 || r.FirstAborted < o.FirstAborted) {
			o.FirstAborted = r.FirstAborted
		}
	}
	return o
}

// BytesOf returns the bytes of the batches in parts.
func BytesOf(parts []Part) (n int64) {
	for i := range parts {
		n += parts[i].Bytes()
	}
	return n
}

// Manifest lists the parts of the archived beginning of a partition's log. Its oldest parts may be
// in other manifests, which are never rewritten.
type Manifest struct {
	ID    ID
	Base  int64 // the parts begin at it; the log may start later
	End   int64
	Older []Older // cover [Base, the first of Parts)
	Parts []Part  // continue Older, up to End
}

// olderSize is the least size of an encoded Older, in bytes.
const olderSize = 1 + 16 + 3

// Encode returns the sealed object, or an error that matches ErrContradiction.
//
// The object has the topic id, partition, base, end - base; how many Older, and for each its end -
// base, nonce, newest + 1, first aborted + 1, bytes; then the parts. An Older has no base: the
// first begins at that of the manifest, and each other one at the end of the one before.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b := m.ID.append(nil)
	b = binary.AppendUvarint(b, uint64(m.Base))
	b = binary.AppendUvarint(b, uint64(m.End-m.Base))
	b = binary.AppendUvarint(b, uint64(len(m.Older)))
	for _, o := range m.Older {
		b = binary.AppendUvarint(b, uint64(o.End-o.Base))
		b = append(b, o.Nonce[:]...)
		b = binary.AppendUvarint(b, uint64(o.Newest+1))
		b = binary.AppendUvarint(b, uint64(o.FirstAborted+1))
		b = binary.AppendUvarint(b, uint64(o.Bytes))
	}
	return objects.Seal(appendParts(b, m.Parts), objects.Manifest, manifestVersion), nil
}

// DecodeManifest decodes the content of an object that Encode returned.
func DecodeManifest(content []byte) (*Manifest, error) {
	r := bytesio.NewReader(content)
	m := &Manifest{ID: readID(&r), Base: number(&r)}
	m.End = after(&r, m.Base)
	at := m.Base
	for range r.Count(olderSize) {
		o := Older{Base: at, End: after(&r, at), Nonce: r.ID(), Newest: orNone(&r), FirstAborted: orNone(&r), Bytes: number(&r)}
		m.Older = append(m.Older, o)
		at = o.End
	}
	m.Parts = readParts(&r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", objects.ErrDamaged, err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (id ID) append(b []byte) []byte {
	return binary.AppendUvarint(append(b, id.Topic[:]...), uint64(id.Partition))
}

func readID(r *bytesio.Reader) ID {
	return ID{Topic: r.ID(), Partition: int32(r.UvarintTo(1<<31 - 1))}
}

func (m *Manifest) check() error {
	at := m.Base
	for _, o := range m.Older {
		if o.Base != at || o.End <= at || o.Newest < -1 || o.FirstAborted < -1 || o.FirstAborted >= o.End || o.Bytes < 0 {
			return fmt.Errorf("%w: manifest has older parts %+v after %d", ErrContradiction, o, at)
		}
		at = o.End
	}
	if m.Base < 0 || m.ID.Partition < 0 || len(m.Parts) > 0 && m.Parts[0].Base != at {
		return fmt.Errorf("%w: manifest of [%d, %d) has parts from %d on", ErrContradiction, m.Base, m.End, at)
	}
	if err := logsOnly(m.Parts); err != nil {
		return err
	}
	return continuous(m.Parts, at, m.End)
}

// logsOnly returns an error if a part is not in a log object.
func logsOnly(parts []Part) error {
	for i := range parts {
		if parts[i].Run.Kind != objects.Log {
			return fmt.Errorf("%w: part %d is in a %v and not in a log object", ErrContradiction, i, parts[i].Run.Kind)
		}
		if err := parts[i].check(); err != nil {
			return err
		}
	}
	return nil
}
