package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a program of this run with a file of its output.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all its lines were handled
	err  error         // valid after done
}

// start runs a program and calls hear with each line of its standard output.
func start(dir, name string, env, argv []string, hear func(line string)) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	errs, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), errs
	// Signals of the terminal must not reach it: the caller ends it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		errs.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		defer errs.Close()
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if hear != nil {
				hear(lines.Text())
			}
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			fmt.Fprintln(errs, err)
		}
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// alive returns an error if a process has ended that should not have.
func (p *process) alive() error {
	select {
	case <-p.done:
		if p.err == nil {
			return fmt.Errorf("%s ended unexpectedly", p.name)
		}
		return fmt.Errorf("%s ended unexpectedly: %w", p.name, p.err)
	default:
		return nil
	}
}

// kill sends SIGKILL.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintf(os.Stderr, "kill %s: %v\n", p.name, err)
	}
	<-p.done
}

// stop sends SIGTERM and waits; the process must exit with 0.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		return fmt.Errorf("%s did not stop within %s", p.name, patience)
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.err != nil {
		return fmt.Errorf("%s stopped with %w", p.name, p.err)
	}
	return nil
}

// tail returns the end of its log.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}
