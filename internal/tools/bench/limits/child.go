package limits

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// serverName is the hidden command that runs the echo server.
const serverName = "echo-server"

// announce precedes the address of an echo server on its standard output.
const announce = "echo server at "

// childEnd is how long an echo server may take to end before it is killed.
const childEnd = 5 * time.Second

// Server is a running echo server, a process of its own.
type Server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

// StartServer starts the running binary again as an echo server on a free port of 127.0.0.1. It
// answers as a broker does a Produce request to a topic. The server ends with Close, with ctx, and
// when this process ends for any reason, because its standard input is then at its end.
func StartServer(ctx context.Context, topic string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start the echo server: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, serverName, "--listen", "127.0.0.1:0", "--topic", topic, "--until-eof")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to the echo server: %w", err)
	}
	cmd.WaitDelay = childEnd
	cmd.Cancel = func() error {
		stdin.Close()
		// It ends on its own now, which is not a failure.
		return os.ErrProcessDone
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe from the echo server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the echo server: %w", err)
	}
	s := &Server{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the echo server did not print its address: %w", err), s.Close())
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), announce)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the echo server printed %q instead of its address", strings.TrimSpace(line)), s.Close())
	}
	s.addr = addr
	return s, nil
}

// Addr returns HOST:PORT of the server.
func (s *Server) Addr() string { return s.addr }

// PID returns its process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close ends the server and waits for it.
func (s *Server) Close() error {
	s.stdin.Close()
	kill := time.AfterFunc(childEnd, func() {
		// It may have ended in the meantime; Wait reports that.
		_ = s.cmd.Process.Kill()
	})
	defer kill.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("wait for the echo server: %w", err)
	}
	return nil
}
