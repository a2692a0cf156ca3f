package statelog

import (
	"encoding/hex"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// The bytes of both files, so that every change of the format is detected.
func TestBytesOfSnapshotAndLog(t *testing.T) {
	fsys := vfs.Memory()
	o := &owner{}
	var err error
	o.Log, _, err = Open(Options{FS: fsys, Dir: "/s", Format: testFormat}, &o.list)
	must(t, err)
	copy(o.id.log[:], "0123456789abcdef")
	must(t, o.rotate())
	must(t, o.add("a", ""))
	must(t, o.rotate())
	must(t, o.add("xyz"))
	must(t, o.Close())
	id := hex.EncodeToString(o.id.log[:])
	for name, want := range map[string]string{
		snapshotName("/s", 2): "" +
			"746573746c697374" + "53" + "00" + "0100" + "00000000" + id + "0200000000000000" + "00000000" + "2c964a11" +
			"fe6d66ed" + "03" + "000000" + "03000000" + "cd57987a" + "0200000000000000" + "0161" + "00" +
			"fe6d66ed" + "04" + "000000" + "01000000" + "266ad3d3" + "0200000000000000" + "02",
		logName("/s", 2): "" +
			"746573746c697374" + "4c" + "00" + "0100" + "00000000" + id + "0200000000000000" + "00000000" + "da3f5b23" +
			"fe6d66ed" + "01" + "000000" + "04000000" + "8e57e8dd" + "0300000000000000" + "0378797a" +
			"fe6d66ed" + "02" + "000000" + "00000000" + "60fc8b09" + "0300000000000000",
	} {
		p, err := vfs.ReadFile(fsys, name)
		must(t, err)
		if got := hex.EncodeToString(p); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}
