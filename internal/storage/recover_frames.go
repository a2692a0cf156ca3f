package storage

import (
	"path"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/vfs"
)

const framesSuffix, unknownFrames = ".frames", "unknown-"

// abandonedFrames has files of frames removed that were kept aside and that no checkpoint
// names: the one that was to name them never came to be, or the log has taken them and a
// crash prevented the removal. The files of logs that are not in use, and of logs that
// nobody knows, stay: a person may need them.
func (r *recovery) abandonedFrames(infos []vfs.Info) {
	taken, needed := map[string]bool{}, map[string]bool{}
	for i := range r.ckpt.Logs {
		lc := &r.ckpt.Logs[i]
		name := lc.Topic + "-" + strconv.Itoa(int(lc.ID.Partition))
		if f := r.found[lc.ID]; f != nil && f.err != nil {
			needed[name] = true
		}
		needed[lc.Aside] = true // goes when the log has taken it
		taken[name] = true
	}
	for _, in := range infos {
		name, ok := strings.CutSuffix(in.Name, framesSuffix)
		at := strings.LastIndexByte(name, '-')
		if !ok || at < 0 || needed[in.Name] {
			continue
		}
		if of := name[:at]; taken[of] && !needed[of] && !strings.HasPrefix(of, unknownFrames) {
			r.later(nil, func() error { return r.d.opt.FS.Remove(path.Join(r.d.path, in.Name)) })
		}
	}
}
