package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	wireMTU   = 16 << 10
	wireQueue = 1024 // packets on their way over one slow wire; a further one is lost
)

// wires connects hosts, which are network namespaces of this machine. A host's only way to another
// one is a TUN device, whose packets this process passes on, delays or drops. So neither a bridge
// nor a packet filter is required, and a direction can be cut without the other one.
type wires struct {
	hosts []*wireHost

	mu   sync.Mutex
	rand *rand.Rand
	cut  map[wire]bool
	slow map[wire]slowness

	stop     context.CancelFunc
	ended    <-chan struct{}
	carriers sync.WaitGroup
}

type wireHost struct {
	namespace *os.File
	device    *os.File
	addr      netip.Addr
	late      []chan latePacket // by the host to which they go
}

type latePacket struct {
	at   time.Time
	data []byte
}

// newWires makes n hosts. It returns an error that matches unix.EPERM or fs.ErrNotExist where this
// process may not make namespaces or the system has no TUN devices.
func newWires(t *testing.T, n int, seed uint64) (*wires, error) {
	t.Helper()
	w := &wires{rand: rand.New(rand.NewPCG(seed, 1)), cut: map[wire]bool{}, slow: map[wire]slowness{}}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, ctx.Done()
	t.Cleanup(w.close)
	for i := range n {
		h, err := newWireHost(netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), n)
		if err != nil {
			return nil, err
		}
		w.hosts = append(w.hosts, h)
	}
	for i, h := range w.hosts {
		w.carriers.Go(func() { w.carry(i) })
		for to := range h.late {
			w.carriers.Go(func() { w.carryLate(h.late[to], w.hosts[to]) })
		}
	}
	return w, nil
}

func (w *wires) close() {
	w.stop()
	for _, h := range w.hosts {
		_ = h.device.Close()
	}
	w.carriers.Wait()
	for _, h := range w.hosts {
		_ = h.namespace.Close()
	}
}

// newWireHost makes a namespace with a loopback and a TUN device. A thread that enters it for this
// does not leave it: it ends with its goroutine.
func newWireHost(addr netip.Addr, n int) (*wireHost, error) {
	h := &wireHost{addr: addr}
	for range n {
		h.late = append(h.late, make(chan latePacket, wireQueue))
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread()
		made <- h.setUp()
	}()
	return h, <-made
}

func (h *wireHost) setUp() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	var err error
	if h.namespace, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	device, err := unix.NewIfreq("wire")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, device); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	h.device = os.NewFile(uintptr(fd), "/dev/net/tun")
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ip := h.addr.As4()
	return errors.Join(
		configure(s, "wire", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip[:]) }),
		configure(s, "wire", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }),
		configure(s, "wire", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(wireMTU); return nil }),
		configure(s, "wire", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }),
		configure(s, "lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }),
		unix.Close(s))
}

// configure sets a property of a network device.
func configure(socket int, device string, what uint, set func(*unix.Ifreq) error) error {
	r, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := set(r); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, what, r); err != nil {
		return fmt.Errorf("%s: ioctl %#x: %w", device, what, err)
	}
	return nil
}

// carry passes on the packets of a host.
func (w *wires) carry(from int) {
	packet := make([]byte, wireMTU+100)
	for {
		n, err := w.hosts[from].device.Read(packet)
		if err != nil {
			return // closed
		}
		if n < 20 || packet[0]>>4 != 4 {
			continue // not IPv4
		}
		to := int(packet[19]) - 1
		if [3]byte(packet[16:19]) != [3]byte{10, 77, 0} || to < 0 || to >= len(w.hosts) {
			continue
		}
		w.send(wire{from, to}, packet[:n])
	}
}

func (w *wires) send(on wire, packet []byte) {
	w.mu.Lock()
	s := w.slow[on]
	lost := w.cut[on] || s.loss > 0 && w.rand.Float64() < s.loss
	w.mu.Unlock()
	switch {
	case lost:
	case s.delay > 0:
		select {
		case w.hosts[on.from].late[on.to] <- latePacket{time.Now().Add(s.delay), append([]byte(nil), packet...)}:
		default:
		}
	default:
		_, _ = w.hosts[on.to].device.Write(packet)
	}
}

// carryLate delivers the packets of a slow wire.
func (w *wires) carryLate(late <-chan latePacket, to *wireHost) {
	for {
		select {
		case <-w.ended:
			return
		case p := <-late:
			select {
			case <-w.ended:
				return
			case <-time.After(time.Until(p.at)):
			}
			_, _ = to.device.Write(p.data)
		}
	}
}

// set cuts these directions, and makes those slow; all others are whole again.
func (w *wires) set(cut []wire, slow map[wire]slowness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
	clear(w.slow)
	for _, on := range cut {
		w.cut[on] = true
	}
	for on, s := range slow {
		w.slow[on] = s
	}
}

// at runs a function on a thread in a host's namespace. What it starts or opens stays in there.
func (w *wires) at(host int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock, so the thread ends: it is in the host's namespace
		if err := unix.Setns(int(w.hosts[host].namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("setns: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// dial connects from a host.
func (w *wires) dial(ctx context.Context, from int, network, addr string) (conn net.Conn, err error) {
	err = w.at(from, func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// A packet takes each wire on its own: a cut drops one direction, a slow wire delays it.
func TestWiresAreCutAndSlowOneByOne(t *testing.T) {
	w, err := newWires(t, 2, 1)
	if err != nil {
		t.Logf("no network namespaces here, so nothing is tested: %v", err)
		return
	}
	var socket [2]net.PacketConn
	for i := range socket {
		must.OK(t, w.at(i, func() (err error) {
			socket[i], err = net.ListenPacket("udp4", w.hosts[i].addr.String()+":9")
			return err
		}))
		t.Cleanup(func() { _ = socket[i].Close() })
	}
	// send sends a word and reports whether it arrived within the time.
	send := func(from int, within time.Duration) bool {
		t.Helper()
		to := socket[1-from]
		if _, err := socket[from].WriteTo([]byte("word"), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		must.OK(t, to.SetReadDeadline(time.Now().Add(within)))
		n, _, err := to.ReadFrom(make([]byte, 10))
		return n == 4 && err == nil
	}
	for from := range 2 {
		if !send(from, startTime) {
			t.Errorf("nothing arrives from host %d", from)
		}
	}
	w.set([]wire{{0, 1}}, nil)
	if send(0, 50*time.Millisecond) {
		t.Error("a packet arrives over a wire that is cut")
	}
	if !send(1, startTime) {
		t.Error("the other direction is cut too")
	}
	w.set(nil, map[wire]slowness{{0, 1}: {loss: 1}})
	if send(0, 50*time.Millisecond) {
		t.Error("a packet arrives over a wire that loses all")
	}
	const delay = 100 * time.Millisecond
	w.set(nil, map[wire]slowness{{0, 1}: {delay: delay}})
	if began := time.Now(); !send(0, startTime) || time.Since(began) < delay {
		t.Errorf("a packet of a slow wire took %v", time.Since(began))
	}
}
