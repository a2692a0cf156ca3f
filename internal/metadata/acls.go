package metadata

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
)

type aclJSON struct {
	header
	acl.Binding
}

// aclID returns the id of an access rule: the beginning of a SHA-256 of its contents. Equal rules
// have one key, so that a rule exists once however often it is written.
func aclID(a *acl.Binding) ID {
	p := []byte{byte(a.Type), byte(a.Pattern), byte(a.Operation), byte(a.Permission)}
	for _, s := range []string{a.Name, a.Principal, a.Host} {
		p = append(binary.AppendUvarint(p, uint64(len(s))), s...)
	}
	sum := sha256.Sum256(p)
	return ID(sum[:16])
}

// EncodeACL returns the value of ACLKey. The texts must be valid UTF-8.
func EncodeACL(a *acl.Binding) []byte { return encode(aclJSON{header: current, Binding: *a}) }

// DecodeACL is the inverse of EncodeACL.
func DecodeACL(kv KV) (acl.Binding, error) {
	k, err := keyOf(kv, KindACL)
	if err != nil {
		return acl.Binding{}, err
	}
	w, err := decode[aclJSON](kv)
	if err == nil && aclID(&w.Binding) != k.ID {
		err = invalid(kv, "the key does not belong to this access rule")
	}
	return w.Binding, err
}

// ACLs iterates over all access rules, in no order.
func (m *Image) ACLs() iter.Seq[acl.Binding] { return m.acls.values() }

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
	for id := range changed(prev.acls, next.acls, func(_, _ acl.Binding) bool { return true }) {
		if a, ok := next.acls.get(id); ok {
			d.ACLsAdded = append(d.ACLsAdded, a)
		} else {
			a, _ = prev.acls.get(id)
			d.ACLsRemoved = append(d.ACLsRemoved, a)
		}
	}
	d.sortACLs()
}

func (d *Delta) sortACLs() {
	for _, list := range [][]acl.Binding{d.ACLsAdded, d.ACLsRemoved} {
		sorts.Sort(list, func(a, b acl.Binding) int {
			x, y := aclID(&a), aclID(&b)
			return bytes.Compare(x[:], y[:])
		})
	}
}
