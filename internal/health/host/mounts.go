package host

import (
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/health/checks"
)

// parseMounts reads /proc/self/mountinfo (proc(5)). A line is
//
//	36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw,barrier=0
//	      device     point  options    optional   type source    options of the file system
//
// It skips lines of another form.
func parseMounts(text string) []checks.Mount {
	var all []checks.Mount
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Split(head, " "), strings.Split(tail, " ")
		if !ok || len(left) < 6 || len(right) < 2 || right[0] == "" || !strings.HasPrefix(left[4], "/") {
			continue
		}
		m := checks.Mount{
			Device:  left[2],
			Point:   unescape(left[4]),
			Options: strings.Split(left[5], ","),
			Type:    right[0],
			Source:  unescape(right[1]),
		}
		if len(right) > 2 {
			for o := range strings.SplitSeq(right[2], ",") {
				// Only the mount's own option counts: a file system that is rw may be mounted ro.
				if !slices.Contains(m.Options, o) && o != "rw" {
					m.Options = append(m.Options, o)
				}
			}
		}
		all = append(all, m)
	}
	return all
}

// unescape decodes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf returns the mount of a path without symbolic links. If several mount points are above the
// path, it prefers mounts of the path's own device, which excludes hidden mounts, then the deepest
// mount point, then the last mount.
func mountOf(all []checks.Mount, path, device string) checks.Mount {
	var best checks.Mount
	for _, m := range all {
		if !within(path, m.Point) {
			continue
		}
		mine, bests := m.Device == device, best.Device == device && best.Type != ""
		switch {
		case bests && !mine:
		case mine && !bests, len(m.Point) >= len(best.Point):
			best = m
		}
	}
	return best
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
