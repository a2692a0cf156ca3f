package ctl_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// screen OUT TEXT=KEYS... -- COMMAND... runs a command on a terminal of 100 columns. Pair by pair,
// it waits until TEXT is drawn and then presses KEYS. It writes the output to OUT. The command
// must restore the terminal's settings.
func screen(ts *testscript.TestScript, neg bool, args []string) {
	cut := 0
	for cut < len(args) && args[cut] != "--" {
		cut++
	}
	if neg || cut == 0 || cut+1 >= len(args) {
		ts.Fatalf("usage: screen OUT TEXT=KEYS... -- COMMAND...")
	}
	control, tty := pseudoTerminal(ts)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	ts.Check(err)
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, args[cut+1])); err == nil && path == "" {
			path = filepath.Join(dir, args[cut+1])
		}
	}
	c := exec.Command(path, args[cut+2:]...)
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	for _, name := range []string{"PATH", "HOME", "CHRONIK_BROKERS", "CHRONIKCTL_ADMIN"} {
		c.Env = append(c.Env, name+"="+ts.Getenv(name))
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(c.Start())
	d, all := &drawn{}, make(chan struct{})
	go func() {
		defer close(all)
		d.from(control)
	}()
	for _, pair := range args[1:cut] {
		text, keys, _ := strings.Cut(pair, "=")
		if !d.wait(text) {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
			ts.Fatalf("%q was not drawn:\n%s", text, d.text())
		}
		_, err := control.WriteString(keys)
		ts.Check(err)
	}
	ts.Check(c.Wait())
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	ts.Check(err)
	if *after != *before {
		ts.Fatalf("the terminal has %+v; it had %+v", after, before)
	}
	ts.Check(tty.Close())
	<-all // the other end reads the rest, and then an error
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(d.text()), 0o600))
}

// pseudoTerminal returns both ends of a pseudo-terminal with a size; the script closes it at its
// end.
func pseudoTerminal(ts *testscript.TestScript) (control, tty *os.File) {
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	ts.Check(err)
	ts.Check(unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	ts.Check(err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	ts.Check(err)
	ts.Check(unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30}))
	ts.Defer(func() { _, _ = tty.Close(), control.Close() })
	return control, tty
}

// drawn stores what a command writes to a terminal.
type drawn struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// from copies until the terminal is closed.
func (d *drawn) from(f *os.File) {
	p := make([]byte, 4096)
	for {
		n, err := f.Read(p)
		d.mu.Lock()
		d.all.Write(p[:n])
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (d *drawn) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all.String()
}

// wait reports whether a text is drawn within a minute.
func (d *drawn) wait(text string) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(d.text(), text) {
			return true
		}
	}
	return false
}
