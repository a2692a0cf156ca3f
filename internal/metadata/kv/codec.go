package kv

import (
	"encoding/binary"
	"fmt"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/metadata"
)

// AppendChanges appends the changes of a transaction, without its conditions:
//
//	nPut { key value } nDelete { key }
//
// Numbers are uvarints; keys and values follow their length.
func AppendChanges(p []byte, t metadata.Txn) []byte {
	p = binary.AppendUvarint(p, uint64(len(t.Put)))
	for _, kv := range t.Put {
		p = bytesio.Append(bytesio.Append(p, kv.Key), kv.Value)
	}
	p = binary.AppendUvarint(p, uint64(len(t.Delete)))
	for _, k := range t.Delete {
		p = bytesio.Append(p, k)
	}
	return p
}

// ParseChanges is the inverse of AppendChanges.
func ParseChanges(p []byte) (metadata.Txn, error) {
	r := bytesio.NewReader(p)
	t := changes(&r)
	return t, end(&r)
}

// AppendTxn appends a transaction: nIf { key modRevision }, and then its changes.
func AppendTxn(p []byte, t metadata.Txn) []byte {
	p = binary.AppendUvarint(p, uint64(len(t.If)))
	for _, c := range t.If {
		p = binary.AppendUvarint(bytesio.Append(p, c.Key), uint64(c.ModRevision))
	}
	return AppendChanges(p, t)
}

// ParseTxn is the inverse of AppendTxn.
func ParseTxn(p []byte) (metadata.Txn, error) {
	r := bytesio.NewReader(p)
	var conditions []metadata.Compare
	for n := r.Count(1); n > 0; n-- {
		conditions = append(conditions, metadata.Compare{Key: r.Text(), ModRevision: int64(r.Uvarint())})
	}
	t := changes(&r)
	t.If = conditions
	return t, end(&r)
}

// AppendKV appends a key of a snapshot: key modRevision value.
func AppendKV(p []byte, kv metadata.KV) []byte {
	p = bytesio.Append(p, kv.Key)
	p = binary.AppendUvarint(p, uint64(kv.ModRevision))
	return bytesio.Append(p, kv.Value)
}

// ParseKV is the inverse of AppendKV.
func ParseKV(p []byte) (metadata.KV, error) {
	r := bytesio.NewReader(p)
	kv := metadata.KV{Key: r.Text()}
	kv.ModRevision = int64(r.Uvarint())
	kv.Value = r.Bytes()
	return kv, r.End()
}

func changes(r *bytesio.Reader) metadata.Txn {
	var t metadata.Txn
	for n := r.Count(1); n > 0; n-- {
		key := r.Text()
		t.Put = append(t.Put, metadata.KV{Key: key, Value: r.Bytes()})
	}
	for n := r.Count(1); n > 0; n-- {
		t.Delete = append(t.Delete, r.Text())
	}
	return t
}

// end returns the error of a parsed payload, if any; bytes that are left are one.
func end(r *bytesio.Reader) error {
	if err := r.End(); err != nil {
		return fmt.Errorf("payload with a valid checksum: %w", err)
	}
	return nil
}
