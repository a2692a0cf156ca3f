package metadata

import (
	"cmp"
	"slices"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Snapshot is a complete snapshot of the cluster: its index is in the object store. It is
// immutable, except for the result of its verification.
type Snapshot struct {
	// Number is the revision of the metadata that the snapshot has.
	Number int64 `json:"-"`
	// Nonce is the one in the name of its index.
	Nonce ID `json:"nonce"`
	// Changes is how many indexes with changes it needs in addition to a complete one; 0: its index
	// is complete.
	Changes int `json:"changes,omitempty"`
	// Time is when it was taken, and Ended when it was complete, in ms since 1970 by the clock of
	// the controller. Times of later snapshots are never smaller.
	Time  int64 `json:"time"`
	Ended int64 `json:"ended"`
	// Partitions is how many it has, and Offline how many of them could not be read, without those
	// of topics that were deleted during the upload.
	Partitions int `json:"partitions"`
	Offline    int `json:"offline,omitempty"`
	// Bytes are those of its records, and Uploaded those that it added to the store.
	Bytes    int64 `json:"bytes"`
	Uploaded int64 `json:"uploaded"`
	// Note is what the brokers noted about their uploads: which partitions begin later than at the
	// cut, are missing, or were uploaded again, and why. It is at most MaxSnapshotNote bytes.
	Note string `json:"note,omitempty"`
	// Verified is when all its objects were read and compared with their checksums last, in ms; 0:
	// never. Damage is what was wrong then; empty: nothing.
	Verified int64  `json:"verified,omitempty"`
	Damage   string `json:"damage,omitempty"`
	// Revision is the revision that last changed it.
	Revision int64 `json:"-"`
}

// MaxSnapshotNote bounds a Snapshot's note, in bytes.
const MaxSnapshotNote = 2000

// Mark is the value of MarkKey. Its revision lies in a freeze of all brokers.
type Mark struct {
	// Time is that of the snapshot.
	Time int64 `json:"time"`
}

// Collection is the value of CollectionKey. Its revision follows a list of all objects: what is on
// that list and is not named by a snapshot of this revision is never named again.
type Collection struct {
	// Time is when the list began, in ms since 1970.
	Time int64 `json:"time"`
	// Generation is that of the metadata. The first collection of another one looks for snapshots
	// that these lack, because they were recovered from an older state.
	Generation ID `json:"generation"`
}

// ObjectStore is the value of ObjectStoreKey.
type ObjectStore struct {
	// Mark is the nonce in the name of an object that the store of every broker has. One that does
	// not have it is another store, or a directory whose file system is not mounted.
	Mark ID `json:"mark"`
}

type snapshotJSON struct {
	header
	Snapshot
}

type markJSON struct {
	header
	Mark
}

type collectionJSON struct {
	header
	Collection
}

type objectStoreJSON struct {
	header
	ObjectStore
}

// Encode returns the value of SnapshotKey.
func (s *Snapshot) Encode() []byte { return encode(snapshotJSON{header: current, Snapshot: *s}) }

// DecodeSnapshot is the inverse of Snapshot.Encode. The number is that of the key.
func DecodeSnapshot(kv KV) (Snapshot, error) {
	k, err := keyOf(kv, KindSnapshot)
	if err != nil {
		return Snapshot{}, err
	}
	w, err := decode[snapshotJSON](kv)
	if err != nil {
		return Snapshot{}, err
	}
	s := w.Snapshot
	if min(int64(s.Changes), s.Time, s.Ended, int64(s.Offline), s.Bytes, s.Uploaded, s.Verified) < 0 || s.Partitions < s.Offline {
		return Snapshot{}, invalid(kv, "a number is negative, or more partitions are offline than there are")
	}
	s.Number, s.Revision = k.Number, kv.ModRevision
	return s, nil
}

// Encode returns the value of MarkKey.
func (m Mark) Encode() []byte { return encode(markJSON{header: current, Mark: m}) }

// DecodeMark is the inverse of Mark.Encode.
func DecodeMark(kv KV) (Mark, error) {
	w, err := decode[markJSON](kv)
	return w.Mark, err
}

// Encode returns the value of CollectionKey.
func (c Collection) Encode() []byte { return encode(collectionJSON{header: current, Collection: c}) }

// DecodeCollection is the inverse of Collection.Encode. A missing key is the zero value.
func DecodeCollection(kv KV) (Collection, error) {
	if kv.ModRevision == 0 {
		return Collection{}, nil
	}
	w, err := decode[collectionJSON](kv)
	return w.Collection, err
}

// Encode returns the value of ObjectStoreKey.
func (o ObjectStore) Encode() []byte { return encode(objectStoreJSON{header: current, ObjectStore: o}) }

// DecodeObjectStore is the inverse of ObjectStore.Encode.
func DecodeObjectStore(kv KV) (ObjectStore, error) {
	w, err := decode[objectStoreJSON](kv)
	if err == nil && w.Mark == (ID{}) {
		err = invalid(kv, "the mark is missing")
	}
	return w.ObjectStore, err
}

// Snapshots returns the snapshots, sorted by number. The result must not be changed.
func (m *Image) Snapshots() []Snapshot { return m.snapshots }

// Snapshot returns the snapshot with a number, or nil.
func (m *Image) Snapshot(number int64) *Snapshot {
	i, ok := slices.BinarySearchFunc(m.snapshots, number, func(s Snapshot, n int64) int { return cmp.Compare(s.Number, n) })
	if !ok {
		return nil
	}
	return &m.snapshots[i]
}

// Suspect reports whether a verification has found damage in a snapshot, or in another one with
// objects that this one may have: one that has the note continues none of them.
func (m *Image) Suspect(s *Snapshot) bool {
	return slices.ContainsFunc(m.snapshots, func(o Snapshot) bool { return o.Damage != "" && o.Revision > s.Number })
}

// Collection returns the revision of the last collection, 0 if there was none.
func (m *Image) Collection() int64 { return m.collection }

// ObjectStore returns what the metadata know of the object store, the zero value if nothing was put
// there since they may know it.
func (m *Image) ObjectStore() ObjectStore { return m.objectStore }

// View returns what operators see of a snapshot.
func (s *Snapshot) View() view.Snapshot {
	return view.Snapshot{
		Number: s.Number, TimeMs: s.Time, EndedMs: s.Ended, Partitions: s.Partitions, Offline: s.Offline, Bytes: s.Bytes,
		UploadedBytes: s.Uploaded, VerifiedMs: s.Verified, Note: s.Note, Damage: s.Damage,
	}
}

func sameSnapshot(a, b Snapshot) bool { return a.Number == b.Number && a.Revision == b.Revision }

// putSnapshot adds or changes a snapshot.
func (b *builder) putSnapshot(kv KV) error {
	s, err := DecodeSnapshot(kv)
	if err != nil {
		return err
	}
	b.removeSnapshot(s.Number)
	list := append(slices.Clip(b.next.snapshots), s)
	sorts.Sort(list, func(x, y Snapshot) int { return cmp.Compare(x.Number, y.Number) })
	b.next.snapshots, b.delta.Snapshots = list, true
	return nil
}

// removeSnapshot removes a snapshot; a missing one is no change.
func (b *builder) removeSnapshot(number int64) {
	if b.next.Snapshot(number) == nil {
		return
	}
	b.next.snapshots = slices.DeleteFunc(slices.Clone(b.next.snapshots), func(s Snapshot) bool { return s.Number == number })
	b.delta.Snapshots = true
}
