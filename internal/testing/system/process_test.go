package system

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a chronikd process started by a test.
type process struct {
	cmd     *exec.Cmd
	Addr    string     // of the first listener, once it is ready
	More    []string   // of the other listeners
	Admin   string     // of the admin port, empty if it is off
	done    chan error // gets the result of Wait, once
	console *console   // nil: it takes no commands

	ready chan readyLine
	mu    sync.Mutex
	log   bytes.Buffer
}

// readyLine is the log line that reports that clients are served.
type readyLine struct {
	Msg    string
	Listen []string
	Admin  string
}

// startTime bounds the time of a start, including recovery, on a busy machine.
const startTime = 3 * time.Minute

// program is what runs as a broker, and where.
type program struct {
	// name of the binary. By default the one that CHRONIKD names; without that, this test binary is
	// chronikd.
	name string
	// console: it obeys the lines of its standard input, and answers each.
	console bool
	// start runs a function where the process must start; nil: here.
	start func(func() error) error
}

// console passes commands to a process. Both ends belong to one goroutine.
type console struct {
	commands io.Writer
	answers  *bufio.Scanner
}

// do sends a command and waits until the process has obeyed.
func (o *console) do(command string) error {
	if _, err := io.WriteString(o.commands, command+"\n"); err != nil {
		return err
	}
	if !o.answers.Scan() {
		return errors.Join(io.ErrUnexpectedEOF, o.answers.Err())
	}
	if text := o.answers.Text(); text != fmt.Sprint(error(nil)) {
		return errors.New(text)
	}
	return nil
}

// launch runs chronikd in dir and does not wait.
func launch(dir string, env []string, args ...string) (*process, error) {
	return program{}.launch(dir, env, args...)
}

func (prog program) launch(dir string, env []string, args ...string) (*process, error) {
	p := &process{
		cmd:  exec.Command(cmp.Or(prog.name, os.Getenv("CHRONIKD"), "chronikd"), args...),
		done: make(chan error, 1), ready: make(chan readyLine, 1),
	}
	p.cmd.Dir = dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CHRONIK_") { // the test's own environment must not configure this broker
			p.cmd.Env = append(p.cmd.Env, kv)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "CHRONIK_CHRONIK_DISK_MIN_FREE_BYTES=0") // the free space of this machine's disk must not affect the test
	p.cmd.Env = append(append(p.cmd.Env, env...), "CHRONIK_LOG_FORMAT=json")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if prog.console {
		in, inErr := p.cmd.StdinPipe()
		out, outErr := p.cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr); err != nil {
			return nil, err
		}
		p.console = &console{commands: in, answers: bufio.NewScanner(out)}
	}
	start := p.cmd.Start
	if prog.start != nil {
		start = func() error { return prog.start(p.cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, err
	}
	go func() {
		p.read(stderr)
		p.done <- p.cmd.Wait()
	}()
	return p, nil
}

// start launches chronikd and waits until it is ready.
func start(dir string, env []string, args ...string) (*process, error) {
	p, err := launch(dir, env, args...)
	if err != nil {
		return nil, err
	}
	err = p.await()
	return p, err
}

// await waits until the broker is ready. It kills a broker that takes too long.
func (p *process) await() error {
	select {
	case line := <-p.ready:
		p.Addr, p.More, p.Admin = line.Listen[0], line.Listen[1:], line.Admin
		return nil
	case err := <-p.done:
		p.done <- err
		return fmt.Errorf("chronikd ended before it was ready: %w\n%s", cmp.Or(err, errors.New("exit code 0")), p.logged())
	case <-time.After(startTime):
		return errors.Join(fmt.Errorf("chronikd is not ready after %v\n%s", startTime, p.logged()), p.end(syscall.SIGKILL))
	}
}

// read collects the log and finds the line with the clients' address.
func (p *process) read(stderr io.Reader) {
	for scan := bufio.NewScanner(stderr); scan.Scan(); {
		p.mu.Lock()
		p.log.Write(scan.Bytes())
		p.log.WriteByte('\n')
		p.mu.Unlock()
		var line readyLine
		if json.Unmarshal(scan.Bytes(), &line) == nil && line.Msg == "ready" && len(line.Listen) > 0 {
			p.ready <- line
		}
	}
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// errors returns the log lines with level error, except those of a disk that hangs: that of a busy
// machine may, and the broker is right to report it.
func (p *process) errors() []string {
	return slices.DeleteFunc(p.reports(), func(line string) bool {
		return strings.Contains(line, `"check":"stuck_disk"`) || strings.Contains(line, `"because":"hung"`)
	})
}

// reports returns all log lines with level error.
func (p *process) reports() []string {
	var found []string
	for line := range strings.Lines(p.logged()) {
		if strings.HasPrefix(line, `{"level":"error"`) || strings.HasPrefix(line, `{"level":"dpanic"`) || !strings.HasPrefix(line, "{") {
			found = append(found, line)
		}
	}
	return found
}

// end sends a signal and waits until the process has ended.
func (p *process) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := <-p.done
	p.done <- err // for further calls
	return err
}
