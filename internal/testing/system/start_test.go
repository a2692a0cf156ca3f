package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// The figures of docs/performance.md:
//
//	make build && CHRONIKD=$PWD/bin/chronikd go test -run '^$' -bench . -benchtime 10x ./internal/testing/system

const manyTopics = 1000

// answer dials until the broker answers a request.
func answer(ctx context.Context, addr string) error {
	for {
		conn, err := net.Dial("tcp", addr)
		switch {
		case err == nil:
			return errors.Join(ask(conn), conn.Close())
		case ctx.Err() != nil || !errors.Is(err, syscall.ECONNREFUSED):
			return err
		}
		pause(ctx, 200*time.Microsecond)
	}
}

// ask sends ApiVersions 0 and reads the start of the response.
func ask(conn net.Conn) error {
	request := binary.BigEndian.AppendUint32(nil, 10) // key, version, correlation id, no client id
	request = binary.BigEndian.AppendUint16(request, uint16(kmsg.ApiVersions))
	request = append(request, 0, 0, 0, 0, 0, 7, 0xff, 0xff)
	if _, err := conn.Write(request); err != nil {
		return err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if head[7] != 7 || head[8] != 0 || head[9] != 0 {
		return fmt.Errorf("the response begins with % x", head)
	}
	return nil
}

// begin starts the broker, waits until it answers, and returns it with the time that took.
func begin(b *testing.B, dir string) (*process, time.Duration) {
	b.Helper()
	addr, err := ports.Loopback()
	must.OK(b, err)
	from := time.Now()
	p, err := launch(dir, nil, "--listen", addr, "--admin-listen", "127.0.0.1:0")
	must.OK(b, err)
	b.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	if err := answer(b.Context(), addr); err != nil {
		b.Fatalf("%v\n%s", err, p.logged())
	}
	took := time.Since(from)
	must.OK(b, p.await())
	return p, took
}

// BenchmarkStartEmpty measures the time from exec to the first response with an empty directory.
func BenchmarkStartEmpty(b *testing.B) {
	var sum time.Duration
	for range b.N {
		p, took := begin(b, b.TempDir())
		sum += took
		_ = p.end(syscall.SIGKILL)
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/start")
}

// BenchmarkStartManyTopics is the same with 1,000 topics of one partition and one record each.
func BenchmarkStartManyTopics(b *testing.B) {
	dir := b.TempDir()
	p, _ := begin(b, dir)
	fill(b, p.Addr)
	for name, sig := range map[string]syscall.Signal{"clean": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		b.Run(name, func(b *testing.B) {
			var sum time.Duration
			for range b.N {
				_ = p.end(sig)
				var took time.Duration
				p, took = begin(b, dir)
				sum += took
				b.StopTimer()
				produce(b, p.Addr) // after a kill there is something to replay
				b.StartTimer()
			}
			b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/start")
		})
	}
}

// BenchmarkIdle measures an idle broker: resident memory, and CPU time per second.
func BenchmarkIdle(b *testing.B) {
	for _, topics := range []int{0, manyTopics} {
		b.Run(strconv.Itoa(topics), func(b *testing.B) {
			p, _ := begin(b, b.TempDir())
			if topics > 0 {
				fill(b, p.Addr)
			}
			pause(b.Context(), 2*time.Second)
			before := cpu(b, p)
			pause(b.Context(), 10*time.Second)
			b.ReportMetric(float64(cpu(b, p)-before)/10, "ms-cpu/s")
			b.ReportMetric(resident(b, p), "MB-resident")
		})
	}
}

// cpu returns the CPU time of a process in ms.
func cpu(b *testing.B, p *process) int64 {
	b.Helper()
	fields := strings.Fields(string(proc(b, p, "stat")))
	var ticks int64
	for _, f := range fields[13:15] { // user and system, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		must.OK(b, err)
		ticks += n
	}
	return ticks * 10
}

// resident returns the resident memory of a process in MB.
func resident(b *testing.B, p *process) float64 {
	b.Helper()
	_, rest, _ := bytes.Cut(proc(b, p, "status"), []byte("VmRSS:"))
	kb, err := strconv.ParseFloat(strings.Fields(string(rest))[0], 64)
	must.OK(b, err)
	return kb / 1024
}

func proc(b *testing.B, p *process, name string) []byte {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
	if err != nil {
		b.Skip(err) // only Linux has it
	}
	return text
}

// fill creates the topics and writes a record into each.
func fill(b *testing.B, addr string) {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(b, err)
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopics(b.Context(), 1, 1, nil, names()...)
	if err == nil {
		err = made.Error()
	}
	must.OK(b, err)
	produce(b, addr)
}

func names() []string {
	all := make([]string, manyTopics)
	for i := range all {
		all[i] = fmt.Sprintf("topic-%04d", i)
	}
	return all
}

func produce(b *testing.B, addr string) {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(b, err)
	defer cl.Close()
	var records []*kgo.Record
	for _, name := range names() {
		records = append(records, &kgo.Record{Topic: name, Value: []byte("x")})
	}
	must.OK(b, cl.ProduceSync(b.Context(), records...).FirstErr())
}
