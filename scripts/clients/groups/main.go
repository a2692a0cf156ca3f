// Command groups takes real consumers of a group through the life of a group:
// members come, leave and are killed, the topic grows, the broker is killed
// while all of that goes on. Afterwards every acknowledged record must have been
// seen, and nobody may ever have gone back behind what was committed.
//
//	groups [flags] -- PROGRAM [ARG...]
//
// PROGRAM is one consumer, of any client. It gets what to do in variables and
// says what it does on its standard output; see events.go. "groups member" is
// such a program for franz-go. The broker is one of its own, on a port and in a
// directory of its own: it has to be killed. The command knows nothing of the
// broker but its protocol and its flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// config is what the command line says.
type config struct {
	chronikd string
	dir      string
	protocol string // classic, consumer, or mixed: one member so, the next so
	assignor string
	static   bool
	regex    bool
	program  []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "member" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		err := consume(ctx)
		stop()
		exit(err)
		return
	}
	var c config
	flag.StringVar(&c.chronikd, "chronikd", "bin/chronikd", "the broker's binary")
	flag.StringVar(&c.dir, "dir", "", "where data and logs go; it must be there")
	flag.StringVar(&c.protocol, "protocol", "classic", "classic, consumer (KIP-848) or mixed")
	flag.StringVar(&c.assignor, "assignor", "", "the client's name of an assignor; empty: its default")
	flag.BoolVar(&c.static, "static", false, "members with instance ids")
	flag.BoolVar(&c.regex, "regex", false, "subscribe by a regular expression; a topic more comes in the middle")
	flag.Parse()
	c.program = flag.Args()
	if len(c.program) == 0 || c.dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	err := run(ctx, c)
	cancel()
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
