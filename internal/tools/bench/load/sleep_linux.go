package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper wakes a worker at intended times. The runtime rounds its own timers to a millisecond if
// nothing else wakes it, which is more than a broker's response time; a timer descriptor wakes the
// poller on time.
type sleeper struct {
	file *os.File
	fd   int
	buf  [8]byte
}

func newSleeper() (*sleeper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &sleeper{file: os.NewFile(uintptr(fd), "timer"), fd: fd}, nil
}

// sleep waits for d. It returns early if ctx ends.
func (s *sleeper) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(s.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	_, err := s.file.Read(s.buf[:])
	if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil) {
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return nil
}

// wake ends the current sleep and all later ones.
func (s *sleeper) wake() {
	// If the deadline cannot be set, the sleep ends when the timer expires.
	_ = s.file.SetReadDeadline(time.Unix(1, 0))
}

// close must be called when no goroutine sleeps.
func (s *sleeper) close() {
	// It was not written to.
	_ = s.file.Close()
}
