package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/storetest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// filesOf returns the files of a directory.
func filesOf(t testing.TB, fsys vfs.FS) map[string][]byte {
	t.Helper()
	list, err := fsys.List("/m")
	must.OK(t, err)
	files := map[string][]byte{}
	for _, in := range list {
		if files[in.Name], err = vfs.ReadFile(fsys, path.Join("/m", in.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// diskOf returns a file system with these files.
func diskOf(t testing.TB, files map[string][]byte) vfs.FS {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/m"))
	for name, p := range files {
		f, err := fsys.Create(path.Join("/m", name))
		if err == nil {
			_, err = f.WriteAt(p, 0)
		}
		must.OK(t, errors.Join(err, f.Close()))
	}
	return fsys
}

// Whatever happens to the bytes of a file of the only voter, a start refuses the directory and
// changes nothing, or shows what was stored up to some transaction, as after a write that the power
// cut off. It shows all if the end of the log is as it was written. ReadAll shows the same.
func FuzzOpen(f *testing.F) {
	// The snapshot has keys from the beginning: a compaction at its own time would remove files
	// while they are read here, and give each process other files.
	fsys, txns, prefixes := vfs.Memory(), storetest.Script()[:6], storetest.Expectations(storetest.Script()[:6])[2:]
	initial := kv.NewState()
	initial.Replay(txns[0])
	initial.Replay(txns[1])
	s, err := Open(Options{FS: fsys, Dir: "/m"})
	if err == nil {
		voters, keys := []uint64{s.Member()}, initial.Range("")
		err = s.Bootstrap(Initial{Generation: [16]byte{1}, Voters: voters, Keys: keys, Revision: initial.Revision()})
	}
	must.OK(f, err)
	var before, killed map[string][]byte
	for _, txn := range txns[2:] {
		before = filesOf(f, fsys)
		if _, err := s.Txn(context.Background(), txn); err != nil {
			f.Fatal(err)
		}
	}
	killed = filesOf(f, fsys)
	must.OK(f, s.Close())
	stopped := filesOf(f, fsys)
	f.Add(true, uint8(0), uint16(0), []byte{}, true)
	f.Add(true, uint8(1), uint16(70), []byte{0, 1, 2}, false)
	f.Add(false, uint8(1), uint16(200), []byte{}, true)
	f.Add(false, uint8(0), uint16(120), []byte{0xff}, false)
	f.Fuzz(func(t *testing.T, stop bool, file uint8, at uint16, with []byte, cut bool) {
		files := maps.Clone(killed)
		if stop {
			files = maps.Clone(stopped)
		}
		names := slices.Sorted(maps.Keys(files))
		name := names[int(file)%len(names)]
		p := bytes.Clone(files[name])
		from := int(at) % (len(p) + 1)
		if n := copy(p[from:], with); cut || n < len(with) {
			p = append(p[:from], with...)
		}
		allowed := prefixes
		if !cut && from+len(with) <= len(before[name]) {
			allowed = prefixes[len(prefixes)-1:]
		}
		files[name] = p
		fsys := diskOf(t, files)
		read, revision, rerr := ReadAll(fsys, "/m")
		s, err := Open(Options{FS: fsys, Dir: "/m"})
		if err != nil {
			for n, now := range filesOf(t, fsys) {
				if !bytes.Equal(now, files[n]) {
					t.Errorf("%s was changed by an open that failed: %v", n, err)
				}
			}
			return
		}
		defer s.Close()
		got := content(t, s)
		if !slices.Contains(allowed, got) {
			t.Errorf("with %d bytes at %d of %s, of %d, it opens as %s", len(with), from, name, len(files[name]), got)
		}
		if rerr != nil || storetest.Text(read, revision) != got {
			t.Errorf("ReadAll shows %s, %v, the store %s", storetest.Text(read, revision), rerr, got)
		}
	})
}

// FuzzState generates states with right checksums that contradict themselves, which FuzzOpen rarely
// finds. A start refuses them, or shows what Read shows.
func FuzzState(f *testing.F) {
	entry := &pb.Entry{Index: new(uint64(2)), Term: new(uint64(1)), Data: []byte{entryVersion}}
	f.Add(uint64(1), uint64(1), int64(1), uint64(1), uint64(1), uint64(7), appendEntry(nil, entry)[1:], []byte{})
	f.Add(uint64(1), uint64(1), int64(1), uint64(1), uint64(2), uint64(7), appendEntry(nil, entry)[1:], appendEntry(nil, entry)[1:])
	f.Add(uint64(9), uint64(3), int64(5), uint64(2), uint64(12), uint64(0), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, index, term uint64, revision int64, voted, commit, voter uint64, first, second []byte) {
		fsys := vfs.Memory()
		disk, _, err := statelog.Open(statelog.Options{FS: fsys, Dir: "/m", Format: format, Log: zap.NewNop()}, newLoader())
		must.OK(t, err)
		m := meta{member: 7, generation: [16]byte{1}, index: index, term: term, revision: revision}
		m.conf = &pb.ConfState{Voters: []uint64{voter}}
		hard := &pb.HardState{Term: new(voted), Vote: new(voter), Commit: new(commit)}
		err = disk.Rotate(func(emit statelog.Emit) error {
			err := emitState(m, nil, hard, nil)(emit)
			for _, e := range [][]byte{first, second} {
				if err == nil && len(e) > 0 {
					err = emit(append([]byte{recordEntry}, e...))
				}
			}
			return err
		})
		if err := errors.Join(err, disk.Close()); err != nil {
			return
		}
		read, _, rerr := ReadAll(fsys, "/m")
		s, err := Open(Options{FS: fsys, Dir: "/m"})
		if err != nil {
			return
		}
		defer s.Close()
		if s.Sole() == 0 || s.Failed() != nil {
			return // it waits for others
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		keys, _, err := s.Range(ctx, "")
		if rerr == nil && (err != nil || fmt.Sprint(keys) != fmt.Sprint(read)) {
			t.Errorf("Read shows %v, the store %v, %v", read, keys, err)
		}
	})
}
