// Package host reads the facts of package checks about this machine: open files, file systems and
// disks below directories, memory, the clock.
//
// It reads /proc, /sys and the results of a few system calls, and changes nothing: only Probe,
// which measures a disk, writes to a file without a name. Facts that it cannot read are unknown,
// which is not a fault: a container, a sandbox or another operating system hides many of them. A
// file system that does not respond blocks it, so call it from a goroutine that no request waits
// for. The daemon calls it. The package does not know which facts are a fault: package checks does.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Machine is the source of facts about a machine.
type Machine struct {
	proc, sys string // /proc and /sys
	limit     func() int
	clock     func() (synchronized, known bool)
}

// New returns this machine.
func New() *Machine {
	return &Machine{proc: "/proc", sys: "/sys", limit: vfs.Descriptors, clock: clockState}
}

// Files returns how many files the process has open and may open; 0 means unknown. Go raises the
// soft limit to the hard limit at the start, so there is only one.
func (m *Machine) Files() checks.Files {
	f := checks.Files{Limit: m.limit()}
	d, err := os.Open(path.Join(m.proc, "self/fd"))
	if err != nil {
		return f
	}
	names, err := d.Readdirnames(-1)
	if err == nil {
		f.Open = len(names) - 1 // without the directory itself
	}
	_ = d.Close() // it was only read
	return f
}

// Clock reports whether the kernel considers the clock synchronized.
func (m *Machine) Clock() checks.Clock {
	synchronized, known := m.clock()
	return checks.Clock{Known: known, Synchronized: synchronized}
}

// Memory returns the memory that the process uses. It does not set the limits.
func (m *Machine) Memory() checks.Memory {
	var x checks.Memory
	b, err := os.ReadFile(path.Join(m.proc, "self/status"))
	if err != nil {
		return x
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			x.Resident = kilobytes(value)
		case "VmSwap":
			x.Swapped = kilobytes(value)
		}
	}
	return x
}

// kilobytes parses " 123 kB" into bytes; 0 if the text has another form.
func kilobytes(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 54)
	if err != nil || n < 0 {
		return 0
	}
	return n << 10
}

// MountedDir returns the file system and the disk of a directory. For a directory that does not
// exist yet they are those of the place where it will be created.
func (m *Machine) MountedDir(role, dir string) checks.MountedDir {
	p := checks.MountedDir{Role: role, Path: dir}
	at, info := resolvePath(dir)
	if info == nil {
		return p
	}
	b, err := os.ReadFile(path.Join(m.proc, "self/mountinfo"))
	if err != nil {
		return p
	}
	var device string
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		dev := uint64(st.Dev) //nolint:unconvert // it is an int32 on macOS
		device = fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	}
	p.Mount = mountOf(parseMounts(string(b)), at, device)
	if p.Mount.Type != "" {
		p.Disk = m.disk(p.Mount.Device)
	}
	return p
}

// Remounted returns directories with the options that their mounts have now. Unlike MountedDir it
// asks no file system, so it never waits for a disk.
func (m *Machine) Remounted(dirs []checks.MountedDir) []checks.MountedDir {
	b, err := os.ReadFile(path.Join(m.proc, "self/mountinfo"))
	if err != nil {
		return dirs
	}
	all, now := parseMounts(string(b)), slices.Clone(dirs)
	for i := range now {
		for _, is := range all {
			if was := &now[i].Mount; is.Point == was.Point && is.Device == was.Device && is.Type == was.Type {
				was.Options = is.Options
			}
		}
	}
	return now
}

// resolvePath returns the path, without symbolic links, of the directory or of its nearest existing
// parent. The info is nil if neither can be determined.
func resolvePath(name string) (string, fs.FileInfo) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", nil
	}
	for {
		at, err := filepath.EvalSymlinks(name)
		if err == nil {
			if info, err := os.Stat(at); err == nil {
				return at, info
			}
			return "", nil
		}
		up := filepath.Dir(name)
		if !errors.Is(err, fs.ErrNotExist) || up == name {
			return "", nil
		}
		name = up
	}
}

// disk returns the whole disk of a block device, MAJOR:MINOR.
func (m *Machine) disk(device string) checks.Disk {
	at, err := filepath.EvalSymlinks(path.Join(m.sys, "dev/block", device))
	if err != nil {
		return checks.Disk{} // not a block device, or hidden
	}
	if _, err := os.Stat(path.Join(at, "partition")); err == nil {
		at = filepath.Dir(at)
	}
	d := checks.Disk{Name: filepath.Base(at), WriteCache: word(path.Join(at, "queue/write_cache"))}
	d.Rotational = word(path.Join(at, "queue/rotational")) == "1"
	return d
}

// word reads a file of one line; "" if it cannot be read.
func word(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
