package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// donatedBy returns the lines of a dump for a repair, of all topics.
func donatedBy(t testing.TB, fsys vfs.FS) (lines []string) {
	t.Helper()
	for _, journal := range []bool{false, true} {
		o := inspect.DumpOptions{Segments: !journal, Journal: journal, Partition: -1, Batches: true}
		at := inspect.Options{FS: fsys, Locations: []storage.Location{location}}
		err := inspect.Dump(context.Background(), at, o, func(it *inspect.Item) error {
			if it.Batch == nil {
				return nil
			}
			line, err := json.Marshal(it)
			lines = append(lines, string(line))
			return err
		})
		must.OK(t, err)
	}
	return lines
}

// donorOf returns the index of these lines, in a file on a disk of its own. Repairs only read it.
func donorOf(t testing.TB, lines []string) *inspect.Donor {
	t.Helper()
	const name = "/saved.json"
	disk := crashfs.New(1)
	must.OK(t, vfs.WriteFile(disk, name, []byte(strings.Join(lines, "\n")), false))
	from, err := inspect.ReadDonor(disk, []string{name})
	must.OK(t, err)
	return from
}

// beginWith begins a repair that restores what the donor has.
func beginWith(t testing.TB, fsys vfs.FS, from *inspect.Donor) *inspect.Repair {
	t.Helper()
	at := inspect.Options{FS: fsys, Locations: []storage.Location{location}, Restore: from}
	r, err := inspect.Begin(context.Background(), at, "repair")
	must.OK(t, err)
	return r
}

// inSegments are the kinds of damage by which segments lose records.
var inSegments = []inspect.Kind{inspect.PartitionMissing, inspect.SegmentMissing, inspect.SegmentShort, inspect.BatchDamaged,
	inspect.BatchOffset}

// What segments have lost, and another replica has, is restored to its offsets: nothing is lost,
// and the log counts as whole.
func TestRepairRestoresWhatAnotherReplicaHas(t *testing.T) {
	t.Parallel()
	image := used(t)
	donor := donorOf(t, donatedBy(t, image.KillImage(11)))
	eachPlant(t, func(t *testing.T, p plant, s *site, whole map[string]map[int64][]byte) {
		if p.stays || !slices.Contains(inSegments, p.kind) {
			return // of the rest, TestRepairLosesWhatItAnnounces
		}
		r := beginWith(t, s.fs, donor)
		defer func() { _ = r.Close() }()
		plan := r.Plan()
		for _, a := range plan.Acts {
			t.Logf("act: %s %s-%d, loses %v", a.What, a.Topic, a.Partition, a.Loses)
		}
		if len(plan.Loses()) > 0 {
			t.Errorf("the plan loses %v", plan.Loses())
		}
		must.OK(t, r.Do(context.Background(), "/backup"))
		if !r.Inspection().Clean() {
			t.Errorf("left: %+v", r.Inspection().Findings)
		}
		must.OK(t, r.Close())
		state, err := storage.ReadState(s.fs, root)
		must.OK(t, err)
		for i := range state.Logs {
			if l := &state.Logs[i]; l.Lossy || l.Partial {
				t.Errorf("%s is marked as one that has lost records", l)
			}
		}
		came(t, s.fs, whole, nil)
	})
}

// A repair that restores and is killed or loses power at any call loses nothing that another one
// does not restore.
func TestRestoreKilledAtEachCall(t *testing.T) {
	t.Parallel()
	image := used(t)
	whole := content(t, opened(t, image.KillImage(9)))
	donor := donorOf(t, donatedBy(t, image.KillImage(11))) // no repair of many parses all of it again
	for shift, name := range []string{"partition gone", "first segment gone", "last segment short", "segment emptied",
		"bit in the middle"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := plants()
			damaged := image.KillImage(3)
			all[slices.IndexFunc(all, func(p plant) bool { return p.name == name })].do(&site{TB: t, fs: damaged})
			durable(t, damaged, root)
			probe := damaged.KillImage(4)
			r := beginWith(t, probe, donor)
			from := probe.Ops()
			must.OK(t, errors.Join(r.Do(context.Background(), "/backup"), r.Close()))
			calls := probe.Ops() - from
			seen := map[[32]byte]bool{} // an earlier call left the same
			for n := range calls {
				if (n+shift)%9 != 0 && os.Getenv("CHRONIK_INSPECT_RUNS") == "" {
					continue // every ninth call; make crash tries all
				}
				fs := damaged.KillImage(5)
				r := beginWith(t, fs, donor)
				fs.CrashAt(fs.Ops() + n)
				if err := r.Do(context.Background(), "/backup"); err != nil && !errors.Is(err, crashfs.ErrCrashed) && !fs.Crashed() {
					t.Fatal(err)
				}
				_ = r.Close() // the process has been killed
				for i, after := range []*crashfs.FS{fs.KillImage(6), fs.PowerLossImage(crashfs.KeepSectors, uint64(n))} {
					sum := sumOf(t, after)
					if seen[sum] {
						continue
					}
					seen[sum] = true
					t.Run(fmt.Sprintf("%d at %d", i, n), func(t *testing.T) {
						between := after.KillImage(7)
						if d, err := storage.OpenDir(location, options(between)); err == nil {
							_ = d.Close()
						}
						for _, fs := range []*crashfs.FS{after, between} {
							r := beginWith(t, fs, donor)
							if loses := r.Plan().Loses(); len(loses) > 0 {
								t.Errorf("the second repair loses %v", loses)
							}
							must.OK(t, errors.Join(r.Do(context.Background(), "/backup2"), r.Close()))
							came(t, fs, whole, nil)
						}
					})
				}
			}
		})
	}
}

// Only what the log had is restored: batches of its epochs at their offsets, of the same topic.
func TestRepairRestoresNothingElse(t *testing.T) {
	t.Parallel()
	image := used(t)
	lines := donatedBy(t, image.KillImage(11))
	change := func(fn func(it *inspect.Item)) []string {
		changed := slices.Clone(lines)
		for i, line := range changed {
			var it inspect.Item
			must.OK(t, json.Unmarshal([]byte(line), &it))
			fn(&it)
			b, err := json.Marshal(&it)
			must.OK(t, err)
			changed[i] = string(b)
		}
		return changed
	}
	one := func(fn func(it *inspect.Item)) string {
		all := lines
		lines = lines[:1]
		defer func() { lines = all }()
		return change(fn)[0]
	}
	damaged := func() *crashfs.FS {
		fs := image.KillImage(3)
		(&site{TB: t, fs: fs}).flip(second, 2000)
		return fs
	}
	for name, lines := range map[string][]string{
		"another epoch": change(func(it *inspect.Item) {
			if it.Batch.Epoch++; it.Batch.Content != nil {
				record.Batch(it.Batch.Content).SetLeaderEpoch(it.Batch.Epoch)
			}
		}),
		"another topic":     change(func(it *inspect.Item) { it.TopicID = "AQIAAAAAAAAAAAAAAAAAAA" }),
		"another partition": change(func(it *inspect.Item) { *it.Partition++ }),
		"nothing":           nil,
	} {
		r := beginWith(t, damaged(), donorOf(t, lines))
		if loses := r.Plan().Loses(); len(loses) != 1 {
			t.Errorf("%s: the repair loses %v", name, loses)
		}
		must.OK(t, r.Close())
	}
	// A log whose epochs are unknown proves nothing.
	fs := damaged()
	(&site{TB: t, fs: fs}).edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Epochs.Clear() })
	r := beginWith(t, fs, donorOf(t, lines))
	if loses := r.Plan().Loses(); len(loses) != 1 {
		t.Errorf("without epochs, the repair loses %v", loses)
	}
	must.OK(t, r.Close())
	for name, line := range map[string]string{
		"garbage": "{", "a frame": `{"what":"frame"}`,
		"no topic":     one(func(it *inspect.Item) { it.TopicID = "" }),
		"offsets":      one(func(it *inspect.Item) { *it.Offset++ }),
		"end":          one(func(it *inspect.Item) { *it.Next++ }),
		"no batch":     one(func(it *inspect.Item) { it.Batch.Content = nil }),
		"two batches":  one(func(it *inspect.Item) { it.Batch.Content = append(it.Batch.Content, it.Batch.Content...) }),
		"a wrong byte": one(func(it *inspect.Item) { it.Batch.Content[len(it.Batch.Content)-1]++ }),
		"epoch":        one(func(it *inspect.Item) { it.Batch.Epoch++ }),
	} {
		must.OK(t, vfs.WriteFile(fs, "/x", []byte(lines[0]+"\n"+line), false))
		_, err := inspect.ReadDonor(fs, []string{"/x"})
		if !errors.Is(err, inspect.ErrDonor) || !strings.Contains(err.Error(), "/x: line 2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := inspect.ReadDonor(fs, []string{"/absent"}); err == nil {
		t.Error("an absent file is accepted")
	}
}
