package files

import (
	"io/fs"
	"syscall"
)

func stampOf(info fs.FileInfo) Stamp {
	s := Stamp{Modified: info.ModTime(), Size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode = sys.Ino
	}
	return s
}

func ofRoot(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && sys.Uid == 0
}
