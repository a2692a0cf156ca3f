package journal

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// BenchmarkBulk is the journal's part of a bulk load on the machine's disk: 4 MiB in entries of one
// size, with a profile that acknowledges written records. CPU is that of the process.
func BenchmarkBulk(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("entry=%dKiB", size>>10), func(b *testing.B) {
			j, err := Open(Options{
				FS: vfs.OS(), Dir: b.TempDir(), ID: testID, FileSize: 16 << 20, MaxBytes: 256 << 20,
				Sweep: func() {}, Failed: func(err error) { b.Error(err) }, Synced: func(GroupStats) {}, DurableThrough: func(LSN) {},
			})
			ok(b, err)
			_, err = j.Fresh(1)
			ok(b, err)
			ok(b, j.Resume())
			var c counter
			s := newStream(1)
			entries := make([]*Entry, (4<<20)/size)
			for i := range entries {
				entries[i] = entry(s, 0, size, loose, &c)
			}
			b.SetBytes(4 << 20)
			var before, after syscall.Rusage
			ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
			for b.Loop() {
				c.Add(len(entries))
				ok(b, j.Submit(nil, entries...))
				c.Wait()
				if j.Used() > 128<<20 {
					j.Release(j.Oldest(j.Notified() + 1))
				}
			}
			ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/1e3/float64(b.N), "cpu-us/op")
			ok(b, j.Close())
		})
	}
}
