package format

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/objects"
)

// maxList bounds the size of a manifest or an index that is read into memory, in bytes.
const maxList = 1 << 30

// MaxChanges is how many indexes with changes may follow a complete one.
const MaxChanges = 63

// ReadManifest reads the manifest of the partition id with a nonce. s has the objects of the
// cluster below prefix.
func ReadManifest(ctx context.Context, s objects.Store, prefix string, id ID, nonce objects.Nonce) (*Manifest, error) {
	name := Name{Kind: objects.Manifest, Partition: id, Nonce: nonce}
	m, err := read(ctx, s, prefix, &name, manifestVersion, DecodeManifest)
	if err == nil && m.ID != id {
		return nil, fmt.Errorf("read object %s%v: %w: it is the manifest of %x-%d", prefix, &name, objects.ErrDamaged, m.ID.Topic,
			m.ID.Partition)
	}
	return m, err
}

// ReadIndex returns the index of a snapshot, which may have changes only.
func ReadIndex(ctx context.Context, s objects.Store, prefix string, cluster [16]byte, at Previous) (*Index, error) {
	name := Name{Kind: objects.Index, Number: at.Number, Nonce: at.Nonce}
	x, err := read(ctx, s, prefix, &name, indexVersion, DecodeIndex)
	if err == nil && (x.Number != at.Number || x.Cluster != cluster) {
		return nil, fmt.Errorf("read object %s%v: %w: it is snapshot %d of cluster %x", prefix, &name, objects.ErrDamaged, x.Number,
			x.Cluster)
	}
	return x, err
}

// ReadSnapshot returns the complete index of a snapshot. It reads the object with its number and
// nonce, and those before it up to a complete one. s has the objects of the cluster below prefix.
func ReadSnapshot(ctx context.Context, s objects.Store, prefix string, cluster [16]byte, at Previous) (*Index, error) {
	var changes []*Index
	for {
		x, err := ReadIndex(ctx, s, prefix, cluster, at)
		if err != nil {
			return nil, err
		}
		if x.Previous == nil {
			return complete(x, changes)
		}
		if len(changes) == MaxChanges {
			return nil, fmt.Errorf("%w: more than %d indexes with changes end with snapshot %d", ErrContradiction, MaxChanges, at.Number)
		}
		changes, at = append(changes, x), *x.Previous
	}
}

// EachManifest calls each with a manifest of the partition id, after those with its older parts.
func EachManifest(ctx context.Context, s objects.Store, prefix string, id ID, nonce objects.Nonce,
	each func(objects.Nonce, *Manifest) error) error {
	m, err := ReadManifest(ctx, s, prefix, id, nonce)
	if err != nil {
		return err
	}
	for i := range m.Older {
		older, err := m.Older[i].Read(ctx, s, prefix, id)
		if err == nil {
			err = each(m.Older[i].Nonce, older)
		}
		if err != nil {
			return err
		}
	}
	return each(nonce, m)
}

// complete applies changes, the newest first, to a complete index.
func complete(x *Index, changes []*Index) (*Index, error) {
	for i := len(changes) - 1; i >= 0; i-- {
		next, err := x.Apply(changes[i])
		if err != nil {
			return nil, err
		}
		x = next
	}
	return x, nil
}

// read reads and decodes an object as a whole.
func read[T any](ctx context.Context, s objects.Store, prefix string, n *Name, newest uint8, decode func([]byte) (*T, error)) (*T, error) {
	name := prefix + n.String()
	content, _, err := objects.Read(ctx, s, name, n.Kind, newest, maxList)
	if err != nil {
		return nil, err
	}
	x, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", name, err)
	}
	return x, nil
}
