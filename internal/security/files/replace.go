package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Replacement is the new content of a file that exists.
type Replacement struct {
	Path string
	Text []byte
}

// Replace replaces files durably, in their order, each by one with the owner and mode of the
// former. It writes all new files before it replaces the first. If it fails, the former files are
// there, under their names, or, if a rename back fails, as *.old. Only the end of the
// process, or a loss of power, in between can leave some of the new ones; Replace can be called
// again then.
func Replace(all []Replacement) error { return replace(all, os.Rename, vfs.OS().SyncDir) }

func replace(all []Replacement, rename func(from, to string) error, syncDir func(string) error) (err error) {
	made, former := func(path string) string { return path + ".new" }, func(path string) string { return path + ".old" }
	kept := map[string]bool{} // the former files that have no other name
	defer func() {
		for _, x := range all { // the rest, after success and failure
			if _ = os.Remove(made(x.Path)); !kept[x.Path] {
				_ = os.Remove(former(x.Path))
			}
		}
	}()
	for _, x := range all {
		_, _ = os.Remove(made(x.Path)), os.Remove(former(x.Path)) // of an attempt that was interrupted
		if err := writeLike(x.Path, made(x.Path), x.Text); err != nil {
			return err
		}
	}
	done := 0
	for ; done < len(all); done++ {
		x := all[done]
		if err = os.Link(x.Path, former(x.Path)); err == nil {
			err = rename(made(x.Path), x.Path)
		}
		if err != nil {
			break
		}
	}
	for i := 0; i < done && err == nil; i++ {
		err = syncDir(filepath.Dir(all[i].Path))
	}
	if err == nil {
		return nil
	}
	for _, x := range all[:done] {
		fault := rename(former(x.Path), x.Path)
		kept[x.Path] = fault != nil
		err = errors.Join(err, fault, syncDir(filepath.Dir(x.Path)))
	}
	return err
}

// writeLike writes a file with the owner and mode of another.
func writeLike(like, path string, text []byte) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := keepOwner(f, info); err != nil {
		return errors.Join(fmt.Errorf("%s: cannot keep the owner of the file: %w; run this as the owner, or as root", like, err), f.Close())
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
}

// keepOwner gives a new file the owner and group of another.
func keepOwner(f *os.File, of fs.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	uid, gid, ok := ownerOf(of)
	myUID, myGID, _ := ownerOf(mine)
	if !ok || uid == myUID && gid == myGID {
		return nil
	}
	return f.Chown(uid, gid)
}

// OwnAs gives a new file the owner and group of another file or directory. It follows no link: the
// owner of the directory could have made one to a file of root, which calls this.
func OwnAs(path, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(keepOwner(f, info), f.Close())
}
