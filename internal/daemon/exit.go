package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Exit codes of chronikd. They are stable, so that supervisors can rely on them.
const (
	ExitOK      = 0
	ExitFailed  = 1 // something failed while running
	ExitUsage   = 2 // the command line or the configuration is wrong
	ExitData    = 3 // a directory is in use, not writable, damaged, of a newer format or another broker's
	ExitAddress = 4 // an address cannot be bound
	ExitCut     = 5 // another signal ended the process before it had drained
)

// exitCodes is the section of --help about exit codes.
const exitCodes = "Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong command line or configuration,\n" +
	"3 a directory is in use, not writable, damaged, of a newer format or another broker's, 4 an address cannot be bound,\n" +
	"5 another signal ended it before it had drained."

// ExitError is an error with the exit code of the process.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the cause and the remedy in one line.
func (e *ExitError) Error() string { return strings.ReplaceAll(e.Err.Error(), "\n", "; ") }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code for an error of a command or of Start.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e := (*ExitError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}

// moreFiles is the remedy for too many open files.
const moreFiles = "raise the limit of open files: LimitNOFILE in the unit, ulimit -n in a shell"

// dataError explains why the data directory cannot be used.
func dataError(dir string, err error) error {
	return remedied(dir, err, dataRemedy(config.KeyDataDir, []string{"--dir", dir}, err))
}

// remedied is the error of a directory with what to do about it, "" if err says it.
func remedied(dir string, err error, text string) error {
	if text != "" {
		text = "; " + text
	}
	return &ExitError{ExitData, fmt.Errorf("directory %s: %w%s", dir, err, text)}
}

// settingName returns a setting as an error names it: with its flag, if it has one.
func settingName(setting string) string {
	if slices.Contains(flagged(), setting) {
		return setting + " (--" + flagName(setting) + ")"
	}
	return setting
}

// dataRemedy returns what to do about a directory that cannot be used, or "" if err says it.
func dataRemedy(setting string, flags []string, err error) string {
	setting = settingName(setting)
	remedy := "choose another with " + setting
	verify := health.Command(append([]string{"chronikctl", "log", "verify"}, flags...)...)
	preview := health.Command(append([]string{"chronikctl", "log", "repair", "--dry-run"}, flags...)...)
	switch {
	case errors.Is(err, storage.ErrForeign), errors.Is(err, statefile.ErrNewer):
		return "" // their texts include the remedy
	case errors.Is(err, journal.ErrDamaged):
		return "restore the journal; if it is lost, " + verify + " lists the damage and " + preview + " shows what a repair saves"
	case errors.Is(err, statefile.ErrCorrupt), errors.Is(err, statelog.ErrDamaged):
		return verify + " lists the damage and " + preview +
			" shows what a repair does; if it cannot repair everything, restore the whole directory from a backup"
	case errors.Is(err, statelog.ErrNewerFormat):
		return "start the version that wrote it, or " + remedy
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return moreFiles
	case errors.Is(err, syscall.EIO):
		return "the disk failed to read or write: `journalctl -k -n 50` shows what the kernel reports about it; copy the directory before you do anything else"
	case errors.Is(err, vfs.ErrLocked):
		remedy = "stop that broker, or give this one a directory of its own with " + setting
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = "make it writable for this user, or " + remedy
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = "free space on its file system, or " + remedy
	}
	return remedy
}

// dirErrors applies dataError to each log directory that could not be opened.
func dirErrors(static map[string]string, err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range all.Unwrap() {
			errs = append(errs, dirErrors(static, e))
		}
		return errors.Join(errs...)
	}
	d := (*storage.DirError)(nil)
	if !errors.As(err, &d) {
		return &ExitError{ExitData, err}
	}
	return remedied(d.Path, d.Err, dirRemedy(static, d))
}

// dirRemedy is dataRemedy for a log directory. A repair refuses where other brokers may have the
// records.
func dirRemedy(static map[string]string, d *storage.DirError) string {
	setting, flags := placeOf(static, d)
	text := dataRemedy(setting, flags, d.Err)
	if d.Replicated && (errors.Is(d.Err, journal.ErrDamaged) || errors.Is(d.Err, statefile.ErrCorrupt)) {
		text += "; where it refuses because other brokers have the records, " + d.Away()
	}
	return text
}

// placeOf returns the setting that an error of a log directory is about, and the flags that name
// the directory to chronikctl log.
func placeOf(static map[string]string, d *storage.DirError) (setting string, flags []string) {
	setting = config.KeyDataDir
	if static["log.dirs"] != "" {
		setting = "log.dirs"
	}
	if p := (*fs.PathError)(nil); static["journal.dirs"] != "" && errors.As(d.Err, &p) && within(path.Clean(p.Path), d.Journal) {
		setting = "journal.dirs"
	}
	flags = []string{"--dir", d.Path}
	if d.Journal != "" && d.Journal != path.Join(d.Path, "journal") {
		flags = append(flags, "--journal", d.Journal)
	}
	return setting, flags
}

// addressError explains why an address cannot be bound. setting is the name of the setting that
// holds the address.
func addressError(setting, address string, err error) error {
	setting = settingName(setting)
	remedy := "choose an address of this machine with " + setting
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another process listens there: stop it, or choose another address with " + setting
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "this machine has no such address: choose one that it has with " + setting
	case errors.Is(err, syscall.EACCES):
		remedy = "ports below 1024 need a privilege: choose a higher port with " + setting
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = moreFiles
	case errors.As(err, new(*net.DNSError)):
		remedy = "write an address of this machine, or a name that resolves to one, in " + setting
	}
	return &ExitError{ExitAddress, fmt.Errorf("cannot listen on %s: %w; %s", address, cause(err), remedy)}
}

// cause returns the innermost reason of an error of net, whose outer texts repeat the address.
func cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	if name := (*net.DNSError)(nil); errors.As(err, &name) {
		return fmt.Errorf("the name %s: %s", name.Name, name.Err)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
