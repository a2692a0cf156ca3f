package files

import (
	"io/fs"
	"os"
	"syscall"
)

func stampOf(info fs.FileInfo) Stamp {
	s := Stamp{Modified: info.ModTime(), Size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode = sys.Ino
	}
	return s
}

// KeepOwner gives a file the owner and group that info has, so that who could read the file that it
// replaces can read it, too. Only root can give a file to another user.
func KeepOwner(f *os.File, info fs.FileInfo) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok := info.Sys().(*syscall.Stat_t)
	has, ok2 := is.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || want.Uid == has.Uid && want.Gid == has.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

func ofRoot(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && sys.Uid == 0
}
