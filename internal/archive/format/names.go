package format

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/objects"
)

// ID names a partition.
type ID struct {
	Topic     [16]byte
	Partition int32
}

// Name is what the name of an object states about it. Only the fields of its kind are set.
type Name struct {
	Kind      objects.Kind
	Nonce     objects.Nonce
	Partition ID    // of a log object or a manifest
	Base, End int64 // of a log object
	Number    int64 // of an index: that of its snapshot
}

// Prefix returns the beginning of the names of all objects of a cluster.
func Prefix(cluster [16]byte) string { return hex.EncodeToString(cluster[:]) + "/" }

// String returns the name below the cluster's prefix. Offsets and numbers have 20 digits, so that
// lists in the order of names are in their order.
func (n *Name) String() string {
	switch n.Kind {
	case objects.Log:
		return fmt.Sprintf("%s%020d-%020d-%v", Folder(n.Kind, n.Partition), n.Base, n.End, n.Nonce)
	case objects.Manifest:
		return Folder(n.Kind, n.Partition) + n.Nonce.String()
	case objects.Index:
		return fmt.Sprintf("%v/%020d-%v", n.Kind, n.Number, n.Nonce)
	}
	return fmt.Sprintf("%v/%v", n.Kind, n.Nonce)
}

// Folder returns the beginning of the names of all objects of a kind that belong to one partition.
func Folder(kind objects.Kind, id ID) string {
	return fmt.Sprintf("%v/%x/%d/", kind, id.Topic, id.Partition)
}

// Parse parses what String returned. It fails for every other text.
func Parse(name string) (n Name, err error) {
	parts := strings.Split(name, "/")
	last := strings.Split(parts[len(parts)-1], "-")
	for k := objects.Log; k <= objects.Index; k++ {
		if parts[0] == k.String() {
			n.Kind = k
		}
	}
	ok := true
	number := func(s string, bits int) int64 {
		v, err := strconv.ParseInt(s, 10, bits)
		ok = ok && err == nil && v >= 0
		return v
	}
	switch {
	case (n.Kind == objects.Log || n.Kind == objects.Manifest) && len(parts) == 4:
		id, err := hex.DecodeString(parts[1])
		if ok = err == nil && len(id) == len(n.Partition.Topic); ok {
			n.Partition.Topic = [16]byte(id)
		}
		n.Partition.Partition = int32(number(parts[2], 32))
		if n.Kind == objects.Log && len(last) == 3 {
			n.Base, n.End = number(last[0], 64), number(last[1], 64)
		}
	case n.Kind == objects.Index && len(last) == 2:
		n.Number = number(last[0], 64)
	}
	n.Nonce, err = objects.ParseNonce(last[len(last)-1])
	// The comparison rejects what the conditions before it do not: other numbers of elements
	// and digits.
	if n.Kind == 0 || !ok || err != nil || n.String() != name {
		return Name{}, fmt.Errorf("%q is not the name of an object of an archive", name)
	}
	return n, nil
}
