package metadata

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
)

// ACL is an access rule: it allows or denies a principal an operation on resources. The numbers are
// Kafka's codes. It is immutable.
type ACL struct {
	Type       uint8  `json:"type"`
	Name       string `json:"name"`
	Pattern    uint8  `json:"pattern"`
	Principal  string `json:"principal"`
	Host       string `json:"host"`
	Operation  uint8  `json:"operation"`
	Permission uint8  `json:"permission"`
}

type aclJSON struct {
	header
	ACL
}

// ID returns the id of an access rule: the beginning of a SHA-256 of its contents. Equal rules have
// one key, so that a rule exists once however often it is written.
func (a ACL) ID() [16]byte {
	p := []byte{a.Type, a.Pattern, a.Operation, a.Permission}
	for _, s := range []string{a.Name, a.Principal, a.Host} {
		p = append(binary.AppendUvarint(p, uint64(len(s))), s...)
	}
	sum := sha256.Sum256(p)
	return [16]byte(sum[:16])
}

// Encode returns the value of ACLKey. The texts must be valid UTF-8.
func (a ACL) Encode() []byte { return encode(aclJSON{header: current, ACL: a}) }

// DecodeACL is the inverse of ACL.Encode.
func DecodeACL(kv KV) (ACL, error) {
	k, err := keyOf(kv, KindACL)
	if err != nil {
		return ACL{}, err
	}
	w, err := decode[aclJSON](kv)
	if err == nil && w.ACL.ID() != k.ID {
		err = invalid(kv, "the key does not belong to this access rule")
	}
	return w.ACL, err
}

// ACLs iterates over all access rules, in no order.
func (m *Image) ACLs() iter.Seq[ACL] {
	return func(yield func(ACL) bool) {
		for _, a := range m.acls.all() {
			if !yield(a) {
				return
			}
		}
	}
}

// NumACLs returns the number of access rules.
func (m *Image) NumACLs() int { return m.acls.len() }

// putACL adds an access rule. One that exists already does not change.
func (b *builder) putACL(id [16]byte, kv KV) error {
	a, err := DecodeACL(kv)
	if err != nil {
		return err
	}
	if _, ok := b.prev.acls.get(id); !ok {
		b.acls.set(id, a)
		b.delta.ACLsAdded = append(b.delta.ACLsAdded, a)
	}
	return nil
}

func (b *builder) removeACL(id [16]byte) {
	if a, ok := b.prev.acls.get(id); ok {
		b.acls.delete(id)
		b.delta.ACLsRemoved = append(b.delta.ACLsRemoved, a)
	}
}

// diffACLs adds the differences of access rules. Rules with one id are equal.
func (d *Delta) diffACLs(prev, next *Image) {
	for id, a := range next.acls.all() {
		if _, ok := prev.acls.get(id); !ok {
			d.ACLsAdded = append(d.ACLsAdded, a)
		}
	}
	for id, a := range prev.acls.all() {
		if _, ok := next.acls.get(id); !ok {
			d.ACLsRemoved = append(d.ACLsRemoved, a)
		}
	}
	d.sortACLs()
}

func (d *Delta) sortACLs() {
	for _, list := range [][]ACL{d.ACLsAdded, d.ACLsRemoved} {
		slices.SortFunc(list, func(a, b ACL) int {
			x, y := a.ID(), b.ID()
			return bytes.Compare(x[:], y[:])
		})
	}
}
