package kv

import (
	"encoding/binary"
	"errors"

	"github.com/chronik-io/chronik/internal/metadata"
)

var errPayload = errors.New("malformed payload with a valid checksum")

// AppendChanges appends the changes of a transaction, without its conditions:
//
//	nPut { key value } nDelete { key }
//
// Numbers are uvarints; keys and values follow their length.
func AppendChanges(p []byte, t metadata.Txn) []byte {
	p = binary.AppendUvarint(p, uint64(len(t.Put)))
	for _, kv := range t.Put {
		p = AppendBytes(AppendBytes(p, kv.Key), kv.Value)
	}
	p = binary.AppendUvarint(p, uint64(len(t.Delete)))
	for _, k := range t.Delete {
		p = AppendBytes(p, k)
	}
	return p
}

// ParseChanges is the inverse of AppendChanges.
func ParseChanges(p []byte) (metadata.Txn, error) {
	r := Parser{p: p}
	t := r.changes()
	return t, r.End()
}

// AppendTxn appends a transaction: nIf { key modRevision }, and then its changes.
func AppendTxn(p []byte, t metadata.Txn) []byte {
	p = binary.AppendUvarint(p, uint64(len(t.If)))
	for _, c := range t.If {
		p = binary.AppendUvarint(AppendBytes(p, c.Key), uint64(c.ModRevision))
	}
	return AppendChanges(p, t)
}

// ParseTxn is the inverse of AppendTxn.
func ParseTxn(p []byte) (metadata.Txn, error) {
	r := Parser{p: p}
	var conditions []metadata.Compare
	for n := r.Count(); n > 0 && !r.bad; n-- {
		conditions = append(conditions, metadata.Compare{Key: string(r.View()), ModRevision: int64(r.Uvarint())})
	}
	t := r.changes()
	t.If = conditions
	return t, r.End()
}

// AppendKV appends a key of a snapshot: key modRevision value.
func AppendKV(p []byte, kv metadata.KV) []byte {
	p = AppendBytes(p, kv.Key)
	p = binary.AppendUvarint(p, uint64(kv.ModRevision))
	return AppendBytes(p, kv.Value)
}

// ParseKV is the inverse of AppendKV.
func ParseKV(p []byte) (metadata.KV, error) {
	r := Parser{p: p}
	kv := metadata.KV{Key: string(r.View())}
	kv.ModRevision = int64(r.Uvarint())
	kv.Value = r.Bytes()
	return kv, r.End()
}

// AppendBytes appends bytes after their length.
func AppendBytes[T string | []byte](p []byte, b T) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}

// Parser parses a payload and keeps the first error. It allocates no more than the payload's size,
// whatever the counts and lengths in it claim.
type Parser struct {
	p   []byte
	bad bool
}

// NewParser returns a parser of a payload.
func NewParser(p []byte) *Parser { return &Parser{p: p} }

// Uvarint reads a number.
func (r *Parser) Uvarint() uint64 {
	n, size := binary.Uvarint(r.p)
	if size <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[size:]
	return n
}

// Count reads the number of following elements, each of which has at least one byte: a false count
// can't cause a large allocation.
func (r *Parser) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return 0
	}
	return int(n)
}

// Bytes reads a length and returns a copy of the bytes after it.
func (r *Parser) Bytes() []byte { return append([]byte{}, r.View()...) }

// View reads a length and returns the bytes after it, which alias the payload.
func (r *Parser) View() []byte {
	n := r.Count()
	b := r.p[:n:n]
	r.p = r.p[n:]
	return b
}

// More reports whether something is left to parse and no error occurred.
func (r *Parser) More() bool { return len(r.p) > 0 }

func (r *Parser) changes() metadata.Txn {
	var t metadata.Txn
	for n := r.Count(); n > 0 && !r.bad; n-- {
		key := string(r.View())
		t.Put = append(t.Put, metadata.KV{Key: key, Value: r.Bytes()})
	}
	for n := r.Count(); n > 0 && !r.bad; n-- {
		t.Delete = append(t.Delete, string(r.View()))
	}
	return t
}

// End returns the error of a parsed payload, if any; bytes that are left are one.
func (r *Parser) End() error {
	if r.bad || len(r.p) > 0 {
		return errPayload
	}
	return nil
}
