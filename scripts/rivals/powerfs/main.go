// Command powerfs mounts a file system whose power can be cut, for any broker: what no fsync or
// fdatasync has covered is lost then.
//
//	powerfs -listen 127.0.0.1:0 DIR
//
// The model is the kindest that POSIX allows. Names are durable at once: of files that are created,
// renamed and removed, nothing is lost or undone. The bytes and the size of a file are those of its
// last fsync or fdatasync, which never fails, and a file without one is empty. So a loss that this
// file system shows is also possible on a disk. One that it does not show may still occur there.
//
// It prints the address of its HTTP port when DIR is mounted. "POST /writeback" makes all bytes
// durable, as the kernel does with old pages of the page cache. "POST /cut" makes all later calls
// fail with EIO. "POST /restore", after the broker's process has ended, gives every file its
// durable bytes, answers how many were lost, and serves again. SIGTERM unmounts. It does not know
// the broker, or decide what must not be lost.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the HTTP port")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: powerfs [-listen ADDR] DIR")
		os.Exit(2)
	}
	if err := run(*listen, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "powerfs:", err)
		os.Exit(1)
	}
}

func run(listen, dir string) error {
	d := &disk{}
	root := d.newDir()
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "powerfs", MaxWrite: 1 << 20},
	})
	if err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		_ = server.Unmount()
		return err
	}
	http.HandleFunc("POST /writeback", func(http.ResponseWriter, *http.Request) { d.writeBack(root) })
	http.HandleFunc("POST /cut", func(http.ResponseWriter, *http.Request) { d.cut() })
	http.HandleFunc("POST /restore", func(w http.ResponseWriter, _ *http.Request) {
		flushMapped(dir)
		files, bytes := d.restore(root)
		_, _ = fmt.Fprintf(w, "%d files lost %d bytes\n", files, bytes)
	})
	go func() { _ = http.Serve(l, nil) }() //nolint:gosec // a test's port on loopback
	fmt.Println(l.Addr())
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	<-stop.Done()
	return server.Unmount()
}

// flushMapped makes the kernel write the pages that a process had mapped and changed. As the power
// is cut, the writes fail, and the kernel forgets the pages. Otherwise it would write them later,
// to the restored files.
func flushMapped(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = unix.Syncfs(int(f.Fd()))
		_ = f.Close()
	}
}
