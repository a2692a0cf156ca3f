package filestore

import (
	"encoding/binary"
	"errors"

	"github.com/chronik-io/chronik/internal/metadata"
)

var errPayload = errors.New("malformed payload with a valid checksum")

// encodeTxn encodes the changes of a transaction, without its conditions.
func encodeTxn(t metadata.Txn) []byte {
	p := binary.AppendUvarint(nil, uint64(len(t.Put)))
	for _, kv := range t.Put {
		p = appendBytes(appendBytes(p, kv.Key), kv.Value)
	}
	p = binary.AppendUvarint(p, uint64(len(t.Delete)))
	for _, k := range t.Delete {
		p = appendBytes(p, k)
	}
	return p
}

func appendBytes[T string | []byte](p []byte, b T) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}

func appendKey(p []byte, kv metadata.KV) []byte {
	p = appendBytes(p, kv.Key)
	p = binary.AppendUvarint(p, uint64(kv.ModRevision))
	return appendBytes(p, kv.Value)
}

// parser parses a payload and keeps the first error. Its results do not alias the payload.
type parser struct {
	p   []byte
	bad bool
}

func (r *parser) uvarint() uint64 {
	n, size := binary.Uvarint(r.p)
	if size <= 0 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[size:]
	return n
}

// count reads the number of following elements, each of which has at least one byte: a false count
// can't cause a large allocation.
func (r *parser) count() int {
	n := r.uvarint()
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return 0
	}
	return int(n)
}

func (r *parser) bytes() []byte {
	n := r.count()
	b := append([]byte{}, r.p[:n]...)
	r.p = r.p[n:]
	return b
}

// parseTxn is the inverse of encodeTxn.
func parseTxn(p []byte) (metadata.Txn, error) {
	r := parser{p: p}
	var t metadata.Txn
	for n := r.count(); n > 0 && !r.bad; n-- {
		key := string(r.bytes())
		t.Put = append(t.Put, metadata.KV{Key: key, Value: r.bytes()})
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		t.Delete = append(t.Delete, string(r.bytes()))
	}
	return t, r.end()
}

// parseKey is the inverse of appendKey.
func parseKey(p []byte) (metadata.KV, error) {
	r := parser{p: p}
	kv := metadata.KV{Key: string(r.bytes())}
	kv.ModRevision = int64(r.uvarint())
	kv.Value = r.bytes()
	return kv, r.end()
}

// end returns the error of a parsed payload, if any.
func (r *parser) end() error {
	if r.bad || len(r.p) > 0 {
		return errPayload
	}
	return nil
}
